"""The paper's words explain themselves."""

import html
import re

import pytest

from core.config import ModelConfig
from playground.ui.glossary import GLOSSARY, explain


@pytest.mark.parametrize("word", GLOSSARY)
def test_each_word_is_explained_in_whole_sentences(word):
    assert GLOSSARY[word][0].isupper() or GLOSSARY[word].startswith(("q", "d_"))
    assert GLOSSARY[word].endswith(".")
    marked = explain(f"the {word} here")
    assert f">{word}</abbr>" in marked
    assert html.escape(GLOSSARY[word]) in marked


def test_each_word_is_marked_once_and_the_text_is_unchanged():
    text = "softmax of scores: the softmax is saturated & the mask < weights"
    marked = explain(text)
    assert marked.count("<abbr") == 5
    assert html.unescape(re.sub(r"</?abbr[^>]*>", "", marked)) == text


def test_the_longest_word_wins_and_parts_of_words_are_left_alone():
    assert ">gradient norm</abbr>" in explain("the gradient norm")
    assert explain("headless keyboard") == "headless keyboard"


def test_markup_in_a_text_is_shown_and_not_obeyed():
    assert "<script>" not in explain("<script>alert(1)</script>")


def test_the_paper_s_words_are_there():
    words = {"query", "key", "value", "scores", "weights", "softmax", "residual", "mask", "head"}
    assert words <= set(GLOSSARY)
    assert "d_model" in GLOSSARY and hasattr(ModelConfig, "d_model")
