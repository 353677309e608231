"""The Playground page as a visitor meets it: the README's command, and Chromium at its address.

No test measures time. Each one also fails on an error in the browser's console, and on a request
that leaves this machine.
"""

import pytest

from browser import FOREVER, SMALL, drawn, pause, play, serving

pytestmark = pytest.mark.browser


# --- play, pause, step, reset -------------------------------------------------------------------


def test_play_moves_the_counter_the_curve_and_the_map_and_builds_no_figure_again(visit):
    tab = visit(steps=FOREVER, lr=0.01, **SMALL)
    untrained = tab.maps()
    play(tab, 20)
    drawn(tab, 20)
    tab.until(lambda: tab.maps() != untrained, "the attention map does not move")

    seen, updates = tab.steps(), tab.plot("loss_chart", "+plot.dataset.updates")
    tab.until(lambda: tab.steps() > seen)
    tab.until(lambda: tab.plot("loss_chart", "+plot.dataset.updates") > updates + 2)
    assert {built for built, _ in tab.builds()} == {1}
    assert len(tab.builds()) >= 3


def test_zoom_and_hidden_lines_are_kept_while_it_runs(visit):
    tab = visit(steps=FOREVER, **SMALL)
    play(tab, 20)
    drawn(tab, 20)

    place = tab.key("loss_chart").locator(".nsewdrag").bounding_box()
    y = place["y"] + place["height"] / 2
    tab.page.mouse.move(place["x"] + place["width"] / 4, y)
    tab.page.mouse.down()
    tab.page.mouse.move(place["x"] + place["width"] / 2, y, steps=4)
    tab.page.mouse.move(place["x"] + place["width"] * 3 / 4, y, steps=4)
    tab.page.mouse.up()
    whole = [0, FOREVER]
    tab.until(lambda: abs(tab.plot("loss_chart", "plot._fullLayout.xaxis.range[0]")) > 1)
    zoomed = tab.plot("loss_chart", "plot._fullLayout.xaxis.range")
    assert zoomed[0] > whole[0] + 1000 and zoomed[1] < whole[1] - 1000

    hidden = "plot._fullData.filter(t => t.visible === 'legendonly').map(t => t.name)"
    tab.key("loss_chart").locator(".legendtoggle").last.click()
    tab.until(lambda: tab.plot("loss_chart", hidden), "the line is not hidden")
    gone = tab.plot("loss_chart", hidden)

    updates = tab.plot("loss_chart", "+plot.dataset.updates")
    tab.until(lambda: tab.plot("loss_chart", "+plot.dataset.updates") > updates + 2)
    assert tab.plot("loss_chart", "plot._fullLayout.xaxis.range") == zoomed
    assert tab.plot("loss_chart", hidden) == gone
    assert tab.plot("loss_chart", "plot.dataset.newplots") == "1"


def test_pause_holds_the_count_step_does_exactly_one_and_reset_ends_a_run_that_is_going(visit):
    """CON-01"""
    tab = visit(steps=FOREVER, **SMALL)
    play(tab, 10)
    assert tab.key("step").get_by_role("button").first.is_disabled()
    steps = pause(tab)
    tab.page.wait_for_timeout(1500)
    assert tab.steps() == steps

    for more in (1, 2):
        tab.press("step")
        tab.until(lambda n=steps + more: tab.steps() == n)
    tab.page.wait_for_timeout(700)
    assert tab.steps() == steps + 2

    play(tab, steps + 10)
    tab.press("reset")
    tab.key("play").wait_for()
    tab.until(lambda: tab.steps() == 0)
    tab.page.wait_for_timeout(700)
    assert tab.steps() == 0
    tab.press("step")
    tab.until(lambda: tab.steps() == 1)


def test_keys_play_pause_and_step(visit):
    tab = visit(steps=FOREVER, **SMALL)
    tab.page.keyboard.press("s")
    tab.until(lambda: tab.steps() == 1)
    tab.rest()
    tab.select("position", "none")  # the list does not take the key that comes next
    tab.until(lambda: tab.link()["position"] == "none")
    tab.rest()
    tab.page.keyboard.press("p")
    tab.key("pause").wait_for()
    tab.until(lambda: tab.steps() > 5)
    tab.page.keyboard.press("p")
    tab.key("play").wait_for()
    tab.rest()
    steps = tab.steps()
    tab.page.keyboard.press("s")
    tab.until(lambda: tab.steps() == steps + 1)


def test_the_same_numbers_come_again_after_play_again_and_after_reset_twice(visit):
    tab = visit(steps=50, **SMALL)
    play(tab, 50)
    first = drawn(tab, 50)
    tab.key("play").wait_for()
    tab.rest()
    tab.press("play")
    tab.until(lambda: tab.steps() < 50 or tab.key("pause").count())
    tab.key("play").wait_for()
    assert drawn(tab, 50) == first
    tab.rest()
    for _ in range(2):
        tab.press("reset")
        tab.until(lambda: tab.steps() == 0 and not tab.losses())
        tab.rest()
    play(tab, 50)
    assert drawn(tab, 50) == first


# --- knobs --------------------------------------------------------------------------------------


def test_a_knob_and_a_new_seed_redraw_the_untrained_attention_with_no_training(visit):
    tab = visit(**SMALL)
    before = tab.maps()
    tab.select("scale", "none")
    tab.until(lambda: tab.maps() != before, "the map has not answered")
    assert tab.link()["scale"] == "none"
    assert tab.steps() == 0 and tab.losses() == []

    sharper = tab.maps()
    tab.select("mask", "none")
    tab.until(lambda: tab.maps() != sharper)
    assert all(value is not None for row in tab.maps()[0] for value in row)

    before = tab.maps()
    tab.press("new_seed")
    tab.until(lambda: tab.link().get("seed") == "1")
    tab.until(lambda: tab.maps() != before)
    assert tab.knob("seed") == "1"


def test_a_hot_change_while_playing_leaves_a_mark_on_the_curve(visit):
    tab = visit(steps=FOREVER, **SMALL)
    play(tab, 20)
    steps = tab.steps()
    tab.select("scale", "none")
    tab.see("Changed while it ran: scale √d_k → none")
    notes = "plot.layout.annotations.map(a => a.text)"
    tab.until(lambda: "scale → none" in tab.plot("loss_chart", notes))
    (mark,) = tab.plot("loss_chart", "plot.layout.shapes.filter(s => s.x0 === s.x1)")
    assert mark["x0"] >= steps
    assert tab.steps() >= mark["x0"]
    tab.until(lambda: tab.steps() > mark["x0"] + 5, "the run does not go on")


def test_a_cold_change_starts_again_and_keeps_the_old_curve_as_a_ghost(visit):
    tab = visit(steps=FOREVER, **SMALL)
    play(tab, 250)
    tab.select("norm", "pre")
    tab.see("norm post → pre. This is a new run")
    ghosts = "plot.data.filter(t => t.opacity < 0.5 && /norm=post/.test(t.name)).map(t => t.y)"
    ghost = tab.until(lambda: tab.plot("loss_chart", ghosts))
    assert max(len(y) for y in ghost) >= 200
    tab.until(lambda: tab.steps() > 0)
    tab.until(lambda: tab.losses() and tab.losses()[0] not in [y[0] for y in ghost])
    tab.key("pause").wait_for()


def test_heads_that_do_not_divide_the_width_become_the_nearest_that_do(visit):
    """XAT-03"""
    tab = visit(d_model=24, n_heads=6, n_layers=1)
    assert tab.knob("n_heads") == "6"
    tab.key("d_model").locator("input[type=range]").press("ArrowRight")
    tab.page.get_by_text("n_heads 6 → 4: each head gets d_model/n_heads columns of 32").wait_for()
    rows = "Object.keys(plot.layout.yaxis.labelalias).length"
    tab.until(lambda: tab.knob("n_heads") == "4" and tab.plot("thumbnails", rows) == 4)
    offered = tab.key("n_heads").get_by_role("radio").all_inner_texts()
    assert [int(option) for option in offered] == [1, 2, 4, 8, 16]


# --- links --------------------------------------------------------------------------------------


def test_a_link_shows_the_same_knobs_elsewhere_and_gives_the_same_losses_bit_for_bit(visit):
    one = visit(steps=50, **SMALL)
    one.select("position", "learned")
    one.until(lambda: "position" in one.link())
    one.toggle("residual")
    one.until(lambda: "residual" in one.link())
    one.rest()

    other = visit()
    other.page.goto(one.page.url)
    other.settle()
    assert other.link() == one.link()
    for key in ("task", "d_model", "n_heads", "n_layers", "scale", "position", "norm", "seed"):
        assert other.knob(key) == one.knob(key)
    assert not other.checked("residual") and not one.checked("residual")

    play(one, 50)
    play(other, 50)
    assert drawn(one, 50) == drawn(other, 50)
    assert len(one.losses()) == 50
    one.until(lambda: one.maps() == other.maps(), "the two visitors see other attention")


def test_a_link_that_asks_for_the_impossible_is_reported_and_opens_with_the_defaults(visit):
    """UI-02"""
    tab = visit(d_model="abc", n_heads=64, position="fourier", seed=-1, lr=[0.01, 0.1], colour=3)
    tab.see(
        "Not everything in this link could be used",
        "d_model=abc",
        "n_heads=64",
        "position=fourier",
        "seed=-1",
        "lr is given 2 times",
        "colour is not a knob of this page",
    )
    knobs = {"d_model": "64", "n_heads": "4", "position": "sinusoidal", "seed": "0"}
    assert {key: tab.knob(key) for key in knobs} == knobs
    tab.press("step")
    tab.until(lambda: tab.steps() == 1)


def test_the_copy_button_copies_the_address(visit):
    tab = visit(context={"permissions": ["clipboard-read", "clipboard-write"]}, n_heads=2)
    tab.key("link").get_by_role("button").click()
    tab.key("link").get_by_text("Copied").wait_for()
    assert tab.page.evaluate("navigator.clipboard.readText()") == tab.page.url


def test_a_reload_keeps_the_knobs_and_says_that_the_run_has_ended(visit):
    tab = visit(steps=FOREVER, **SMALL)
    tab.select("scale", "d_k")
    tab.until(lambda: "scale" in tab.link())
    tab.rest()
    play(tab, 5)
    knobs = tab.link()
    tab.page.reload()
    tab.settle()
    tab.see("The page was reloaded: your run has ended")
    assert tab.link() == knobs and tab.knob("scale") == "d_k"
    assert tab.steps() == 0
    tab.press("step")
    tab.until(lambda: tab.steps() == 1)


# --- looking ------------------------------------------------------------------------------------


def test_the_slider_scrubs_the_map_back_to_before_training(visit):
    tab = visit(steps=50, lr=0.01, **SMALL)
    untrained = tab.maps()
    play(tab, 50)
    tab.key("play").wait_for()
    tab.until(lambda: tab.maps() != untrained)
    trained = tab.maps()
    slider = tab.key("scrubber").locator("input[type=range]")
    slider.focus()
    slider.press("Home")
    tab.until(lambda: tab.maps() == untrained, "the slider does not change the map")
    tab.see("Shown: step 0 of 50")
    slider.press("End")
    tab.until(lambda: tab.maps() == trained)


def test_the_attention_map_shows_a_head_a_stage_of_the_formula_and_ones_own_example(visit):
    tab = visit(**SMALL)
    first = tab.maps()
    assert len(first) == 1
    tab.select("head", "head 2")
    second = tab.until(lambda: (now := tab.maps()) != first and now)
    tab.select("head", "head 1")
    tab.until(lambda: tab.maps() == first)
    assert tab.maps() != second

    weights = tab.maps()[0]
    assert all(abs(sum(filter(None, row)) - 1) < 1e-3 for row in weights)  # shown to 4 digits
    hidden = [[value is None for value in row] for row in weights]
    assert hidden[0] == [False] + [True] * (len(weights) - 1)

    seen = {"softmax": weights}
    for stage in ("q·k", "·scale", "+mask"):
        tab.select("stage", stage)
        seen[stage] = tab.until(lambda: (now := tab.maps()[0]) not in seen.values() and now)
    scores, scaled = seen["q·k"], seen["·scale"]
    d_head = SMALL["d_model"] / 4
    assert scaled[1][0] == pytest.approx(scores[1][0] / d_head**0.5, rel=1e-2)
    assert [[value is None for value in row] for row in seen["+mask"]] == hidden

    labels = "Object.values(plot.layout.xaxis.labelalias).join('')"
    before = tab.plot("attention", labels)
    tab.fill("probe", "9876543210")
    tab.until(lambda: tab.plot("attention", labels).startswith("9876543210→0123456789"[:20]))
    assert tab.link()["probe"] == "9876543210"
    tab.fill("probe", "12x")
    tab.see("Your example:", "'x'", "The task's own example is shown")
    tab.until(lambda: tab.plot("attention", labels) == before)


def test_a_click_on_a_thumbnail_shows_that_head_large_and_the_link_remembers_it(visit):
    tab = visit(**SMALL | {"n_layers": 2})
    before = tab.maps()
    left, top = tab.plot(
        "thumbnails",
        "(({ left, top }, { xaxis, yaxis }) =>"
        " [left + xaxis._offset + xaxis.d2p(2), top + yaxis._offset + yaxis.d2p(3)])"
        "(plot.getBoundingClientRect(), plot._fullLayout)",
    )
    tab.page.mouse.click(left, top)
    tab.until(lambda: tab.maps() != before, "the click has chosen nothing")
    assert (tab.knob("layer"), tab.knob("head")) == ("block 2", "head 3")
    tab.until(lambda: (tab.link().get("layer"), tab.link().get("head")) == ("block 2", "head 3"))
    assert {built for built, _ in tab.builds()} == {1}
    titles = "plot.layout.annotations.map(note => note.text)"
    assert tab.plot("attention", titles) == ["block 2, head 3"]
    shown = tab.maps()
    tab.page.reload()
    tab.settle()
    assert tab.maps() == shown


def test_of_a_long_text_a_part_that_moves_has_labels(visit):
    tab = visit(task="text", text_length=64, probe="the model reads " * 4, **SMALL)
    tab.see("Shown large: positions 40 to 63 of 63")
    labels = "Object.keys(plot.layout.xaxis.labelalias).map(Number)"
    assert tab.plot("attention", labels) == list(range(40, 64))
    last = tab.maps()
    slider = tab.key("map_end").locator("input[type=range]")
    slider.focus()
    slider.press("Home")
    tab.see("Shown large: positions 1 to 24 of 63")
    tab.until(lambda: tab.plot("attention", labels) == list(range(1, 25)))
    assert tab.maps() != last


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_colour_schemes_and_the_projector_are_drawn(visit, scheme):
    tab = visit(context={"color_scheme": scheme}, projector="true", **SMALL)
    back = tab.page.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor")
    ink = tab.plot("loss_chart", "plot._fullLayout.font.color")
    brightness = [int(part) for part in back[4:-1].split(",")[:3]]
    assert (sum(brightness) > 600) if scheme == "light" else (sum(brightness) < 150)
    text = tab.page.evaluate("getComputedStyle(document.querySelector('.stApp')).color")
    as_rgb = f"rgb({', '.join(str(int(ink[i : i + 2], 16)) for i in (1, 3, 5))})"
    assert as_rgb == text
    font = "parseFloat(getComputedStyle(document.documentElement).fontSize)"
    tab.until(lambda: tab.page.evaluate(font) > 18, "the letters are not large")

    large = tab.plot("loss_chart", "[plot._fullLayout.font.size, plot.clientHeight]")
    tab.toggle("projector")
    now = "[plot._fullLayout.font.size, plot.clientHeight]"
    tab.until(lambda: all(a < b for a, b in zip(tab.plot("loss_chart", now), large, strict=True)))
    assert "projector" not in tab.link()


def test_every_tab_of_details_draws_while_it_runs(visit):
    tab = visit(steps=FOREVER, **SMALL)
    play(tab, 5)
    tab.page.get_by_role("tab", name="Health").click()
    for key in ("gradients", "entropy", "spread"):
        tab.page.wait_for_selector(f".st-key-{key} .live-plot[data-newplots]")
    count = "Math.max(...plot.data.map(t => t.y.length))"
    tab.until(lambda: tab.plot("gradients", count) > 10)
    tab.page.get_by_role("tab", name="What changed").click()
    tab.see("Nothing yet")
    tab.page.get_by_role("tab", name="This model").click()
    tab.key("model_drawing").locator("svg:visible").wait_for()


def test_the_model_of_a_run_writes_and_goes_on_from_another_character(visit):
    tab = visit(task="text", text_source="grammar", steps=FOREVER, **SMALL)
    play(tab, 20)
    tab.page.get_by_role("tab", name="Write").click()
    tab.see("writes on from the prompt", "and is still training")
    tab.page.wait_for_selector(".st-key-write_alternatives .live-plot[data-newplots]")
    letters = "plot.data[0].text.flat()"
    before = tab.plot("write_picture", letters)
    assert len([letter for letter in before if letter]) == 65  # a newline, and what it writes

    def click(key: str, x: float, y: float) -> None:
        """On a point of a figure's first panel, in its own units."""
        plot = tab.key(key).locator(".live-plot")
        plot.scroll_into_view_if_needed()
        at = tab.plot(
            key,
            f"(({{_offset: l, d2p: x}}, {{_offset: t, d2p: y}}) => [l + x({x}), t + y({y})])"
            "(plot._fullLayout.xaxis, plot._fullLayout.yaxis)",
        )
        plot.click(position={"x": at[0], "y": at[1]})

    click("write_picture", 6, 0)  # the sixth of the written ones
    tab.until(lambda: tab.link().get("write_at") == "6")
    tab.see("Character 6 is")
    bars = "plot.data[0].x"
    told = tab.plot("write_alternatives", bars)
    click("write_alternatives", told[1] / 2, 0.8)  # the second bar: of what the model says
    tab.until(lambda: tab.plot("write_picture", letters) != before, "it does not go on from it")
    after = tab.plot("write_picture", letters)
    assert after[1:6] == before[1:6]
    tab.key("write_restart").wait_for()
    tab.press("pause")


# --- what goes wrong ----------------------------------------------------------------------------


def test_a_run_that_diverges_says_why_keeps_its_curve_and_reset_gives_a_working_one(visit):
    """UI-03"""
    tab = visit(lr=1000, clip="off", more_training="true", **SMALL)
    tab.press("play")
    tab.see("The finite curve is kept; Reset gives a new run")
    tab.key("play").wait_for()
    words = tab.page.inner_text("[data-verdict=bad]")
    steps = tab.steps()
    assert f"step {steps + 1}" in words and "1000" in words
    losses = tab.losses()
    assert len(losses) == steps > 0 and None not in losses

    tab.press("reset")
    tab.until(lambda: tab.steps() == 0)
    tab.select("lr", "0.001")
    tab.until(lambda: "lr" not in tab.link())
    tab.rest()
    play(tab, steps + 20)
    assert tab.page.locator("[data-verdict=bad]").count() == 0


def test_a_file_that_is_no_utf8_is_refused_by_byte_and_the_earlier_text_stays(visit, tmp_path):
    """UPL-01"""
    tab = visit()
    tab.open(task="text", text_source="own", text_length=8, more_task="true", settle=False, **SMALL)
    tab.see("The source is your text, and there is none yet")

    def upload(name: str, data: bytes) -> None:
        (tmp_path / name).write_bytes(data)
        tab.key("own_file").locator("input[type=file]").set_input_files(tmp_path / name)

    upload("good.txt", b"to be or not to be, that is the question\r\n" * 10)
    tab.settle()
    tab.see("In use: 410 characters")
    mark = tab.link()["fingerprint"]
    tab.press("step")
    tab.until(lambda: tab.steps() == 1)

    upload("bad.txt", "café — naïve".encode("cp1252"))
    tab.see("bad.txt: byte 0xE9 at offset 3 is not UTF-8", "The earlier text stays in use")
    tab.see("In use: 410 characters")
    assert tab.link()["fingerprint"] == mark
    tab.press("step")
    tab.until(lambda: tab.steps() == 2)


# --- coming and going ---------------------------------------------------------------------------


def test_a_run_goes_on_while_another_page_is_looked_at(visit):
    """UI-01"""
    tab = visit(steps=FOREVER, **SMALL)
    tab.select("scale", "d_k")
    tab.until(lambda: "scale" in tab.link())
    tab.rest()
    play(tab, 10)
    drawn(tab, 10)
    steps, before = tab.steps(), tab.curve()
    tab.page.get_by_role("link", name="The code").click()
    tab.see("plain PyTorch, nothing hidden")
    tab.page.wait_for_timeout(1000)
    tab.page.get_by_role("link", name="Playground").click()
    tab.settle()
    assert tab.steps() > steps
    after = tab.curve()
    assert after[1] == before[1]
    assert all(after[step] == before[step] for step in before.keys() & after.keys())
    assert tab.knob("scale") == "d_k" and tab.link()["scale"] == "d_k"
    tab.key("pause").wait_for()


def test_whoever_comes_trains_beside_those_who_were_there(visit, tmp_path):
    """CON-02"""
    with serving(tmp_path / "log", PLAYGROUND_MAX_ACTIVE="1") as address:
        first = visit(address, steps=FOREVER)
        play(first, 5)
        second = visit(address, steps=FOREVER, seed=1, **SMALL)
        play(second, 5)
        before = first.steps()
        first.until(lambda: first.steps() > before, "its run does not go on")
        first.page.close()
        second.page.close()
