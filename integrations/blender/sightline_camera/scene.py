"""Between a Blender scene and a CameraPath.

World axes stay as they are: those of the scene, usually z up. Where the scene has units, a path in metres is converted by the
scene's unit scale; every other path keeps its numbers.
"""

from __future__ import annotations

import bpy
from mathutils import Matrix

from .camera_path import CameraPath, CameraPathError, flip_opengl, scaled
from .lens import BlenderImage, BlenderLens, image_from_intrinsics, intrinsics_from_lens, lens_from_intrinsics

# Custom properties of an imported camera: what a path says and Blender does not, so that it is exported again.
UNIT, NEAR_DEPTH = "sightline_unit", "sightline_near_depth"


def path_from_scene(scene: bpy.types.Scene, metres: bool = True) -> CameraPath:
    """The active camera over the scene's frame range, with constraints, parents and drivers applied.

    metres: convert to metres where the scene has units; else the numbers stay those of the scene.
    """
    camera = scene.camera
    if camera is None or camera.type != "CAMERA":
        raise CameraPathError(
            f"the scene {scene.name!r} has no active camera: expected one (Scene properties, Camera)."
        )
    image = image_of(scene)
    has_units = metres and scene.unit_settings.system != "NONE"
    unit = camera.data.get(UNIT, "metre" if has_units else "scene") if metres else "scene"
    to_unit = metres_per_unit(scene, unit)
    poses, lenses = [], []
    before = scene.frame_current, scene.frame_subframe
    try:
        for frame in range(scene.frame_start, scene.frame_end + 1, scene.frame_step):
            scene.frame_set(frame)
            evaluated = camera.evaluated_get(bpy.context.evaluated_depsgraph_get())
            lenses.append(intrinsics_from_lens(lens_of(evaluated.data, frame), image))
            poses.append(scaled(flip_opengl(_rigid(evaluated.matrix_world)), to_unit))
    finally:
        scene.frame_set(before[0], subframe=before[1])
    near_depth = camera.data.get(NEAR_DEPTH)
    fps = scene.render.fps / scene.render.fps_base / scene.frame_step
    return CameraPath(poses, lenses, image.width, image.height, fps, unit, near_depth)


def image_of(scene: bpy.types.Scene) -> BlenderImage:
    """The size that Blender renders, which rounds the percentage down."""
    render = scene.render
    if render.use_border and render.use_crop_to_border:
        raise CameraPathError(
            f"the scene {scene.name!r} crops to the render region: expected the whole image (switch the crop off)."
        )
    percent = render.resolution_percentage
    width, height = render.resolution_x * percent // 100, render.resolution_y * percent // 100
    return BlenderImage(width, height, render.pixel_aspect_x, render.pixel_aspect_y)


def lens_of(data: bpy.types.Camera, frame: int) -> BlenderLens:
    if data.type != "PERSP":
        raise CameraPathError(
            f"the camera {data.name!r} has the type {data.type} in frame {frame}: expected PERSP, a perspective camera."
        )
    return BlenderLens(data.lens, data.shift_x, data.shift_y, data.sensor_fit, data.sensor_width, data.sensor_height)


def insert_path(scene: bpy.types.Scene, path: CameraPath, name: str, at_camera: bool = False) -> bpy.types.Object:
    """A new active camera with a key in each frame. Size, pixel aspect, frame rate and frame range of the scene follow the path.

    at_camera: the first frame stands where the active camera stands now, as suits a path that begins at the identity.
    """
    image = image_from_intrinsics(path.intrinsics, path.width, path.height)
    lenses = [lens_from_intrinsics(lens, image, frame) for frame, lens in enumerate(path.intrinsics)]
    poses = _blender_poses(scene, path, at_camera)
    data = bpy.data.cameras.new(name)
    data.sensor_fit, data.sensor_width = lenses[0].sensor_fit, lenses[0].sensor_width
    data[UNIT] = path.unit
    if path.near_depth is not None:
        data[NEAR_DEPTH] = path.near_depth
    camera = bpy.data.objects.new(name, data)
    scene.collection.objects.link(camera)
    camera.rotation_mode = "QUATERNION"
    _set_render(scene, path, image)
    with _LinearKeys():
        _insert_keys(camera, poses, lenses, scene.frame_start)
    scene.camera = camera
    scene.frame_set(scene.frame_start)
    return camera


def metres_per_unit(scene: bpy.types.Scene, unit: str) -> float:
    """Units of the path per unit of the scene."""
    return scene.unit_settings.scale_length if unit == "metre" and scene.unit_settings.system != "NONE" else 1.0


def _blender_poses(scene: bpy.types.Scene, path: CameraPath, at_camera: bool) -> list[Matrix]:
    from_unit = 1 / metres_per_unit(scene, path.unit)
    poses = [Matrix(scaled(flip_opengl(pose), from_unit)) for pose in path.camera_to_world]
    if not at_camera:
        return poses
    if scene.camera is None:
        raise CameraPathError(f"the scene {scene.name!r} has no active camera to start at: expected one.")
    start = Matrix(_rigid(scene.camera.matrix_world)) @ poses[0].inverted()
    return [start @ pose for pose in poses]


def _set_render(scene: bpy.types.Scene, path: CameraPath, image: BlenderImage) -> None:
    render = scene.render
    render.resolution_x, render.resolution_y, render.resolution_percentage = image.width, image.height, 100
    render.pixel_aspect_x, render.pixel_aspect_y = image.pixel_aspect_x, image.pixel_aspect_y
    render.fps = max(1, round(path.fps))  # a whole number; fps_base makes it exact
    render.fps_base = render.fps / path.fps
    scene.frame_step = 1
    scene.frame_start = 1
    scene.frame_end = len(path.camera_to_world)


def _insert_keys(camera: bpy.types.Object, poses: list[Matrix], lenses: list[BlenderLens], start: int) -> None:
    previous = None
    for frame, (pose, lens) in enumerate(zip(poses, lenses, strict=True), start=start):
        rotation = pose.to_quaternion()
        if previous is not None and rotation.dot(previous) < 0:
            rotation.negate()  # both signs are one rotation; between frames the components must not jump
        previous = rotation
        camera.location, camera.rotation_quaternion = pose.to_translation(), rotation
        camera.keyframe_insert("location", frame=frame)
        camera.keyframe_insert("rotation_quaternion", frame=frame)
        camera.data.lens, camera.data.shift_x, camera.data.shift_y = lens.focal_mm, lens.shift_x, lens.shift_y
        if any(other != lenses[0] for other in lenses):
            for channel in ("lens", "shift_x", "shift_y"):
                camera.data.keyframe_insert(channel, frame=frame)


def _rigid(matrix: Matrix) -> list[list[float]]:
    """The pose without the object's scale, which Blender's renderers ignore too."""
    position, rotation, _ = matrix.decompose()
    return [list(row) for row in Matrix.LocRotScale(position, rotation, None)]


class _LinearKeys:
    """New keys are linear in this block: Blender's curves would overshoot between frames."""

    def __enter__(self) -> None:
        self.edit = bpy.context.preferences.edit
        self.before = self.edit.keyframe_new_interpolation_type
        self.edit.keyframe_new_interpolation_type = "LINEAR"

    def __exit__(self, *exception: object) -> None:
        self.edit.keyframe_new_interpolation_type = self.before
