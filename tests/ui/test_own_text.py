"""A text of the visitor's own: taken when it is good, explained when it is not."""

import hashlib

import pytest
from streamlit.testing.v1 import AppTest

from core.tasks.sources import MAX_TEXT_BYTES
from helpers import fine
from playground.ui.own_text import fingerprint

GOOD = "to be or not to be, that is the question\n" * 5


def page() -> None:
    from functools import partial

    import streamlit as st

    from core.tasks import TASKS
    from playground.ui import own_text

    length = st.session_state.get("length", 2)
    st.session_state.got = own_text.draw(partial(TASKS["text"], source="own", length=length))


def opened(**query: str) -> AppTest:
    test = AppTest.from_function(page, default_timeout=30)
    for key, value in query.items():
        test.query_params[key] = value
    return fine(test.run())


def paste(test: AppTest, text: str) -> AppTest:
    return fine(test.text_area(key="own_paste").set_value(text).run())


def upload(test: AppTest, name: str, data: bytes) -> AppTest:
    return fine(test.get("file_uploader")[0].set_value((name, data, "text/plain")).run())


def said(test: AppTest) -> str:
    return " ".join(e.value for e in [*test.error, *test.warning, *test.caption])


def test_nothing_is_used_before_a_text_is_given():
    assert opened().session_state.got == ""


def test_a_pasted_text_is_used_with_one_spelling_of_line_ends():
    test = paste(opened(), "one\r\ntwo\rthree\ufeff")
    assert test.session_state.got == "one\ntwo\nthree"
    assert "In use: 13 characters" in said(test)
    assert test.text_input(key="fingerprint").value == fingerprint("one\ntwo\nthree")


def test_a_file_with_a_byte_order_mark_and_windows_line_ends_is_cleaned():
    """UPL-01"""
    test = upload(opened(), "good.txt", b"\xef\xbb\xbf" + b"one\r\ntwo")
    assert test.session_state.got == "one\ntwo"


def test_a_file_that_is_no_utf8_is_refused_by_byte_and_the_earlier_text_stays():
    """UPL-01"""
    test = upload(opened(), "good.txt", GOOD.encode())
    test = upload(test, "bad.txt", "café — naïve".encode("cp1252"))
    assert "bad.txt: byte 0xE9 at offset 3 is not UTF-8" in said(test)
    assert "The earlier text stays in use." in said(test)
    assert test.session_state.got == GOOD
    test = upload(test, "better.txt", b"abcdef")
    assert test.session_state.got == "abcdef" and not test.error


def test_a_bad_file_with_no_earlier_text_leaves_nothing():
    """UPL-01"""
    for data, why in ((b"", "empty"), (b"a\0b", "NUL at character 1"), (b"\xff", "0xFF")):
        test = upload(opened(), "bad.txt", data)
        assert why in said(test) and test.session_state.got == ""
        assert "earlier text" not in said(test)


@pytest.mark.parametrize(
    "bad, why",
    [
        ("ab", "2 characters, at least 3 needed"),
        ("".join(chr(0x4E00 + i) for i in range(600)), "600 different characters, at most 512"),
    ],
)
def test_a_text_that_the_task_cannot_learn_is_refused_and_the_earlier_one_stays(bad, why):
    test = upload(opened(), "good.txt", GOOD.encode())
    test = upload(test, "bad.txt", bad.encode())
    assert f"bad.txt: the text has {why}" in said(test)
    assert "The earlier text stays in use." in said(test)
    assert f"In use: {len(GOOD)} characters" in said(test)
    assert test.session_state.got == GOOD
    assert test.text_input(key="fingerprint").value == fingerprint(GOOD)


def test_a_text_too_short_for_the_length_is_taken_once_the_length_fits():
    test = opened()
    test.session_state.length = 64
    paste(fine(test.run()), GOOD[:100])
    assert "take a shorter length" in said(test) and test.session_state.got == ""
    test.session_state.length = 49
    fine(test.run())
    assert not test.error and test.session_state.got == GOOD[:100]


def test_the_size_limit_is_said_in_numbers():
    test = paste(opened(), "x" * (MAX_TEXT_BYTES + 1))
    assert "5,000,001 bytes" in said(test) and "at most 5,000,000" in said(test)
    assert test.session_state.got == ""


def test_a_link_that_was_made_with_a_text_asks_for_it():
    mark = fingerprint(GOOD)
    test = opened(fingerprint=mark)
    assert f"that it does not contain ({mark})" in said(test)
    test = paste(test, GOOD)
    assert not test.warning and not test.error
    assert test.session_state.got == GOOD


def test_a_long_fingerprint_in_a_link_is_cut():
    test = opened(fingerprint="9" * 3000)
    assert "9" * 40 + "…" in said(test) and "9" * 41 not in said(test)


def test_another_text_than_the_link_was_made_with_is_used_and_the_difference_said():
    mark = fingerprint(GOOD)
    test = paste(opened(fingerprint=mark), "something else")
    assert "the curve will differ" in said(test) and mark in said(test)
    assert test.session_state.got == "something else"


def test_the_fingerprint_is_the_beginning_of_the_sha256():
    assert fingerprint("é") == hashlib.sha256("é".encode()).hexdigest()[:12]
