"""A folder of videos with cameras, whatever their format."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from PIL import Image

from sightline.data.clip_spec import ClipSpec
from sightline.data.clips import Clips
from sightline.data.sources import open_source
from sightline.errors import SightlineError
from sightline.video import save_video
from tests.conftest import smooth_trajectory

FRAMES = np.random.default_rng(0).integers(0, 256, (9, 48, 64, 3), np.uint8)
SPEC = ClipSpec(5, width=64, height=48)


def test_every_format_beside_its_video_is_a_clip(tmp_path):
    shot = smooth_trajectory(9, 64, 48)
    for name, ending, format in (
        ("a", "json", "sightline"), ("b", "txt", "re10k"), ("c", "tum", "tum"), ("deep/d", "npy", "panshot"),
        ("e", "json", "nerfstudio"),
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        save_video(FRAMES, tmp_path / f"{name}.mp4", fps=24)
        shot.save(tmp_path / f"{name}.{ending}", format=format)
    (tmp_path / "pictures").mkdir()
    for frame, picture in enumerate(FRAMES):
        Image.fromarray(picture).save(tmp_path / "pictures" / f"{frame}.png")
    shot.save(tmp_path / "pictures.json")
    for name, place in (("f", "f"), ("deep/g", "deep/g/sparse/0")):
        save_video(FRAMES, tmp_path / f"{name}.mp4", fps=24)
        shot.save(tmp_path / place, format="colmap", binary=name == "f")
    (tmp_path / "notes.txt").write_text("no camera")
    (tmp_path / "images.txt").write_text("no model either")
    (tmp_path / "captions.json").write_text(json.dumps({"a": "a hall"}))
    source = open_source(f"folder:{tmp_path}?unit=metre")
    assert source.shots() == ["a", "b", "c", "deep/d", "deep/g", "e", "f", "pictures"]
    clips = Clips([source], SPEC, strict=True)
    for clip in clips:
        assert clip.frames.shape == (5, 48, 64, 3) and clip.trajectory.unit == "metre"
        expected = shot.anchored().positions[:5]
        assert torch.allclose(clip.trajectory.anchored().positions, expected, atol=1e-5), clip.name
    assert [clips[index].caption for index in (0, 1)] == ["a hall", "a video"]
    assert [clips[index].has_caption for index in (0, 1)] == [True, False]
    assert clips[3].trajectory.fps == 24  # of the video, where the format has no time


def test_the_output_of_vipe_is_a_source(tmp_path):
    shot = smooth_trajectory(9, 64, 48)
    (tmp_path / "rgb").mkdir()
    (tmp_path / "pose").mkdir()
    save_video(FRAMES, tmp_path / "rgb" / "a.mp4")
    shot.save(tmp_path / "pose" / "a.npz", format="vipe")
    source = open_source(f"folder:{tmp_path}?videos=rgb&cameras=pose&unit=metre&name=opensora")
    clip = Clips([source], SPEC, strict=True)[0]
    assert (clip.source, clip.trajectory.unit) == ("opensora", "metre") and not source.knows_depth(SPEC)


def test_what_does_not_fit_is_one_sentence(tmp_path):
    with pytest.raises(SightlineError, match="no video with a camera file of the same name"):
        open_source(f"folder:{tmp_path}").shots()
    save_video(FRAMES[:5], tmp_path / "a.mp4")
    smooth_trajectory(9, 64, 48).save(tmp_path / "a.json")
    with pytest.raises(SightlineError, match="found 5 frames, expected 9"):
        Clips([open_source(f"folder:{tmp_path}")], SPEC)[0]
    smooth_trajectory(9, 64, 48).save(tmp_path / "a.tum")
    with pytest.raises(SightlineError, match="both the cameras of a"):
        open_source(f"folder:{tmp_path}").shots()
    for options, words in (
        ("unit=feet", "unit of folder is 'feet'"),
        ("captions=no.json", "expected a json of captions"),
    ):
        with pytest.raises(SightlineError, match=words):
            open_source(f"folder:{tmp_path}?{options}")


def test_plain_matrices_take_their_axes_and_direction(tmp_path):
    trajectory = smooth_trajectory(9, 64, 48)
    save_video(FRAMES, tmp_path / "a.mp4")
    options = {"axes": "opengl", "direction": "world-to-camera"}
    trajectory.save(tmp_path / "a.npy", format="matrices", **options)
    text = "&".join(f"{name}={value}" for name, value in options.items())
    clip = Clips([open_source(f"folder:{tmp_path}?format=matrices&{text}")], SPEC, strict=True)[0]
    assert torch.allclose(clip.trajectory.camera_to_world, trajectory.anchored().camera_to_world[:5], atol=1e-6)
