"""Symbolic links in folders of scenes: loops end, and a scene that two paths lead to is there once."""

from __future__ import annotations

import pytest

from sightline.data.sources import open_source
from sightline.data.sources._source import folders_with


@pytest.fixture
def root(tmp_path):
    for name in ("b/scene", "c", "outside/far"):
        folder = tmp_path / ("outside" if name.startswith("outside") else "root") / name.removeprefix("outside/")
        folder.mkdir(parents=True)
        (folder / "transforms.json").write_text("{}")
    return tmp_path / "root"


def names(root):
    return [folder.relative_to(root).as_posix() for folder in folders_with(root, "transforms.json")]


def test_links_are_followed_once(root):
    assert names(root) == ["b/scene", "c"]
    (root / "a").symlink_to("b")  # sorts before what it leads to
    (root / "b" / "loop").symlink_to("..")
    (root / "b" / "self").symlink_to("self")
    (root / "z").symlink_to(root / "c")
    (root / "broken").symlink_to("nowhere")
    (root / "elsewhere").symlink_to("../outside")
    assert names(root) == ["b/scene", "c", "elsewhere/far"]
    assert open_source(f"dl3dv:{root}").shots() == ["b/scene", "c", "elsewhere/far"]
