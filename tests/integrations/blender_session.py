"""Run by test_blender_scene.py in an environment with bpy and without sightline: uses the add-on as Blender's menus do.

python blender_session.py FOLDER: FOLDER/*.path.json are imported and exported again; a scene made by hand is exported and
rendered. Results are files in the same folder.
"""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from pathlib import Path

import bpy
from mathutils import Matrix, Vector

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "integrations/blender"))
import sightline_camera  # noqa: E402

MARKERS = {"red": (-0.6, 0.5, 0.4), "green": (0.7, 1.0, -0.3), "blue": (0.1, -0.4, 0.1)}


def main(folder: Path) -> None:
    assert importlib.util.find_spec("sightline") is None, "the add-on must work without the package"
    sightline_camera.register()
    report = {"errors": [], "blender": bpy.app.version_string}
    for file in sorted(folder.glob("*.path.json")):
        bpy.ops.wm.read_factory_settings(use_empty=True)
        bpy.ops.import_scene.sightline_camera(filepath=str(file))
        for format in ("sightline", "nerfstudio-path"):
            target = folder / f"{file.name.removesuffix('.path.json')}.{format}.json"
            bpy.ops.export_scene.sightline_camera(filepath=str(target), format=format)
    report["centres"] = render_by_hand(folder)
    bpy.ops.export_scene.sightline_camera(filepath=str(folder / "by_hand.json"))
    bpy.ops.export_scene.sightline_camera(filepath=str(folder / "by_hand_path.json"), format="nerfstudio-path")
    report["frame_after_export"] = bpy.context.scene.frame_current
    position, rotation, _ = bpy.context.scene.camera.matrix_world.decompose()  # without the scale of its parent
    start = Matrix.LocRotScale(position, rotation, None)
    bpy.ops.import_scene.sightline_camera(filepath=str(sorted(folder.glob("*.path.json"))[0]), start="CAMERA")
    moved = bpy.context.scene.camera.matrix_world
    report["start_error"] = max(
        abs(a - b) for r, s in zip(start, moved, strict=True) for a, b in zip(r, s, strict=True)
    )
    for case in ("orthographic", "no camera"):
        if case == "no camera":
            bpy.context.scene.camera = None
        else:
            bpy.context.scene.camera.data.type = "ORTHO"
        try:
            bpy.ops.export_scene.sightline_camera(filepath=str(folder / "refused.json"))
        except RuntimeError as error:
            report["errors"].append(str(error).strip())
    sightline_camera.unregister()
    (folder / "report.json").write_text(json.dumps(report))


def render_by_hand(folder: Path) -> dict[str, list[float]]:
    """A camera with parent, scale, shift, vertical fit and tall pixels; the centre of each marker in one rendered frame."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    scene = bpy.context.scene
    data = bpy.data.cameras.new("camera")
    camera = bpy.data.objects.new("camera", data)
    parent = bpy.data.objects.new("parent", None)
    scene.collection.objects.link(camera)
    scene.collection.objects.link(parent)
    camera.parent, parent.scale = parent, (2.0, 2.0, 2.0)
    camera.location = (0.2, -2.6, 0.5)
    camera.rotation_euler = (math.radians(80), math.radians(4), math.radians(5))
    data.sensor_fit, data.sensor_height, data.shift_x, data.shift_y = "VERTICAL", 20.0, 0.08, -0.05
    for frame, lens, turn in ((1, 40.0, 0.0), (9, 48.0, 6.0)):
        data.lens = lens
        data.keyframe_insert("lens", frame=frame)
        parent.rotation_euler = (0, 0, math.radians(turn))
        parent.keyframe_insert("rotation_euler", frame=frame)
    scene.camera = camera
    scene.frame_start, scene.frame_end, scene.frame_step = 1, 9, 2
    scene.render.resolution_x, scene.render.resolution_y, scene.render.resolution_percentage = 321, 203, 50
    scene.render.pixel_aspect_x, scene.render.pixel_aspect_y = 1.0, 1.3
    scene.render.fps, scene.render.fps_base = 30, 1.001
    scene.unit_settings.scale_length = 0.5
    add_markers(scene)
    scene.frame_set(5)
    return centres(scene, folder / "render.exr")


def add_markers(scene: bpy.types.Scene) -> None:
    for channel, (name, place) in enumerate(MARKERS.items()):
        bpy.ops.mesh.primitive_uv_sphere_add(radius=0.06, location=Vector(place))
        material = bpy.data.materials.new(name)
        material.use_nodes = True
        nodes, links = material.node_tree.nodes, material.node_tree.links
        nodes.clear()
        glow, out = nodes.new("ShaderNodeEmission"), nodes.new("ShaderNodeOutputMaterial")
        glow.inputs["Color"].default_value = [float(channel == index) for index in range(3)] + [1.0]
        links.new(glow.outputs[0], out.inputs["Surface"])
        bpy.context.object.data.materials.append(material)
    scene.render.engine, scene.cycles.device, scene.cycles.samples = "CYCLES", "CPU", 32
    scene.cycles.use_denoising = False
    scene.cycles.max_bounces = 0
    scene.render.image_settings.file_format = "OPEN_EXR"  # linear, so that edges weigh what they cover
    scene.render.image_settings.color_depth = "32"


def centres(scene: bpy.types.Scene, file: Path) -> dict[str, list[float]]:
    """Weighted centres in pixels, from the left and the top edge; and the size of the picture."""
    scene.render.filepath = str(file)
    bpy.ops.render.render(write_still=True)
    image = bpy.data.images.load(str(file))
    width, height = image.size
    pixels = list(image.pixels)  # rows from the bottom, RGBA
    found = {"size": [width, height]}
    for channel, name in enumerate(MARKERS):
        total = x = y = 0.0
        for row in range(height):
            for column in range(width):
                weight = pixels[4 * (row * width + column) + channel]
                total, x, y = total + weight, x + weight * (column + 0.5), y + weight * (height - row - 0.5)
        found[name] = [x / total, y / total]
    return found


main(Path(sys.argv[1]))
