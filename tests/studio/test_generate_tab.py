"""The tab Generate without a browser: what is shown is what the film is made of."""

from __future__ import annotations

from tests.studio.plain_page import click, edit


def keys_of_the_path(visit):
    click(visit, visit.shoot.keys.start)
    assert visit.session.mode == "keys"


def test_a_refused_length_stays_while_it_is_typed_and_not_longer(visit):
    keys_of_the_path(visit)
    edit(visit, visit.generate.frames, 1)  # as the first letter of 17
    assert visit.generate.frames.value == 1 and "expected at least 4" in visit.generate.cost.content
    edit(visit, visit.shoot.move, "pan:10")
    assert visit.generate.frames.value == visit.session.num_frames == len(visit.session.trajectory) == 33
    click(visit, visit.generate.start)
    assert visit.studio.worker.tasks[-1].arguments["num_frames"] == 33


def test_a_refused_size_starts_no_film_and_is_not_shown_after_that(visit):
    edit(visit, visit.generate.size, "127x128")
    click(visit, visit.generate.start)
    assert "127" in visit.said[-1] and visit.generate.job is None
    assert visit.generate.size.value == "128x128"


def test_a_length_that_has_not_been_drawn_is_drawn_before_the_film_is_made(visit):
    visit.generate.frames.value = 5  # its change was lost on the way
    click(visit, visit.generate.start)
    assert visit.player.slider.max == 4 and visit.studio.worker.tasks[-1].arguments["num_frames"] == 5


def test_a_reopened_film_leaves_nothing_of_the_film_before(visit):
    visit.generate.name.value, visit.generate.state.content = "before", "before took 3 s."
    settings = {"prompt": "a room", "negative_prompt": None, "seed": 7, "num_inference_steps": 3}
    visit.generate.fill("room", {**settings, "guidance_scale": 1.0, "camera_guidance_scale": 1.0}, "room")
    assert visit.generate.name.value == "room" and "before" not in visit.generate.state.content


def test_a_prompt_that_was_typed_for_another_picture_stays_and_the_new_picture_tells_its_own(visit):
    prompt, hint = visit.generate.prompt, visit.generate.prompt_hint
    assert prompt.value == visit.session.caption and hint.content == ""
    edit(visit, prompt, "a red room")
    click(visit, visit.shoot.use_world)
    assert prompt.value == "a red room" and visit.session.caption in hint.content
    edit(visit, prompt, visit.session.caption + "\n")
    assert hint.content == ""
