"""Procedural scenes with known cameras, depth and scale, and the ray caster that films them. See docs/worlds.md."""

from sightline.worlds.film import Film, film
from sightline.worlds.render import render_batch, render_depth, render_frames
from sightline.worlds.scene import FAR, Scene, distance_to_solids, stack
from sightline.worlds.styles import STYLES, WorldBatch, WorldClip, make_scene, make_scenes, sample_batch, sample_clip

__all__ = [
    "FAR",
    "STYLES",
    "Film",
    "Scene",
    "WorldBatch",
    "WorldClip",
    "distance_to_solids",
    "film",
    "make_scene",
    "make_scenes",
    "render_batch",
    "render_depth",
    "render_frames",
    "sample_batch",
    "sample_clip",
    "stack",
]
