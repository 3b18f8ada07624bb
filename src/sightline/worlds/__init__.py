"""Procedural scenes with known cameras, depth and scale, and the ray caster that renders them. See docs/worlds.md."""

from sightline.worlds.render import render_batch, render_depth, render_frames
from sightline.worlds.render_clip import RenderedClip, render_clip
from sightline.worlds.scene import FAR, Scene, distance_to_solids, stack
from sightline.worlds.styles import STYLES, SceneShot, WorldBatch, make_scene, make_scenes, sample_batch, sample_clip

__all__ = [
    "FAR",
    "STYLES",
    "RenderedClip",
    "Scene",
    "SceneShot",
    "WorldBatch",
    "distance_to_solids",
    "make_scene",
    "make_scenes",
    "render_batch",
    "render_clip",
    "render_depth",
    "render_frames",
    "sample_batch",
    "sample_clip",
    "stack",
]
