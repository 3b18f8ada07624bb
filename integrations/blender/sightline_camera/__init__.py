"""Blender add-on: the active camera's animation as sightline json or nerfstudio camera_path.json, and back.

It needs nothing but Blender. Only `scene` and `operators` import bpy, so that the rest can be tested without Blender.
"""


def register() -> None:
    from . import operators

    operators.register()


def unregister() -> None:
    from . import operators

    operators.unregister()
