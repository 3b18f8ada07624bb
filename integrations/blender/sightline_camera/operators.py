"""File > Export > Camera Path and File > Import > Camera Path."""

# Blender reads the annotations below as values, so they must not be postponed.

from pathlib import Path

import bpy
from bpy.props import EnumProperty, StringProperty
from bpy_extras.io_utils import ExportHelper, ImportHelper

from . import path_files, scene
from .camera_path import CameraPathError


class ExportCameraPath(bpy.types.Operator, ExportHelper):
    """Write the active camera over the scene's frame range"""

    bl_idname = "export_scene.sightline_camera"
    bl_label = "Export Camera Path"
    filename_ext = ".json"
    filter_glob: StringProperty(default="*.json", options={"HIDDEN"})
    format: EnumProperty(
        name="Format",
        items=[
            ("sightline", "Sightline", "All of the lens: focal length, shift, pixel aspect"),
            ("nerfstudio-path", "nerfstudio camera_path", "Vertical field of view; no shift and no pixel aspect"),
        ],
    )

    def execute(self, context: bpy.types.Context) -> set[str]:
        try:
            path = scene.path_from_scene(context.scene, metres=self.format == "sightline")
            path_files.write(path, self.filepath, self.format)
        except CameraPathError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        if self.format == "nerfstudio-path" and (lost := path_files.lost_in_nerfstudio(path)):
            self.report({"WARNING"}, lost)
        return {"FINISHED"}


class ImportCameraPath(bpy.types.Operator, ImportHelper):
    """Add an animated camera; the scene's size, frame rate and frame range follow it"""

    bl_idname = "import_scene.sightline_camera"
    bl_label = "Import Camera Path"
    bl_options = {"REGISTER", "UNDO"}  # noqa: RUF012
    filename_ext = ".json"
    filter_glob: StringProperty(default="*.json", options={"HIDDEN"})
    start: EnumProperty(
        name="Start",
        items=[
            ("FILE", "As in the file", "The world axes of the file are those of the scene"),
            ("CAMERA", "At the active camera", "The first frame stands where the active camera stands"),
        ],
    )

    def execute(self, context: bpy.types.Context) -> set[str]:
        try:
            path = path_files.read(self.filepath)
            scene.insert_path(context.scene, path, Path(self.filepath).stem, at_camera=self.start == "CAMERA")
        except CameraPathError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        return {"FINISHED"}


CLASSES = (ExportCameraPath, ImportCameraPath)


def draw_export(self: bpy.types.Menu, context: bpy.types.Context) -> None:
    self.layout.operator(ExportCameraPath.bl_idname, text="Camera Path (.json)")


def draw_import(self: bpy.types.Menu, context: bpy.types.Context) -> None:
    self.layout.operator(ImportCameraPath.bl_idname, text="Camera Path (.json)")


def register() -> None:
    for cls in CLASSES:
        bpy.utils.register_class(cls)
    bpy.types.TOPBAR_MT_file_export.append(draw_export)
    bpy.types.TOPBAR_MT_file_import.append(draw_import)


def unregister() -> None:
    bpy.types.TOPBAR_MT_file_export.remove(draw_export)
    bpy.types.TOPBAR_MT_file_import.remove(draw_import)
    for cls in reversed(CLASSES):
        bpy.utils.unregister_class(cls)
