"""Blender's lens (millimetres, sensor fit, shift, pixel aspect) and intrinsics in pixels.

Blender first finds the side that the sensor fits (AUTO: the longer one, in units that count the pixel aspect). `fitted` is
that side in pixel widths: the whole sensor spans it, and the shifts are fractions of it, right and up.
"""

from __future__ import annotations

from dataclasses import dataclass

from .camera_path import CameraPathError, Matrix

SENSOR_MM = 36.0  # width of the sensor that imported cameras get
SMALLEST_LENS_MM = 1.0  # Blender allows no shorter lens


@dataclass(frozen=True)
class BlenderLens:
    focal_mm: float
    shift_x: float = 0.0
    shift_y: float = 0.0
    sensor_fit: str = "HORIZONTAL"  # or VERTICAL, AUTO
    sensor_width: float = SENSOR_MM
    sensor_height: float = 24.0


@dataclass(frozen=True)
class BlenderImage:
    """Size of the rendered image in pixels, and the width and height of one pixel (only their ratio counts)."""

    width: int
    height: int
    pixel_aspect_x: float = 1.0
    pixel_aspect_y: float = 1.0

    @property
    def pixel_height(self) -> float:
        """Height of a pixel in pixel widths."""
        return self.pixel_aspect_y / self.pixel_aspect_x


def intrinsics_from_lens(lens: BlenderLens, image: BlenderImage) -> Matrix:
    fit = lens.sensor_fit
    if fit == "AUTO":
        fit = "HORIZONTAL" if image.width >= image.height * image.pixel_height else "VERTICAL"
    # AUTO measures the sensor by its width, also where it fits the height.
    sensor = lens.sensor_height if lens.sensor_fit == "VERTICAL" else lens.sensor_width
    fitted = image.width if fit == "HORIZONTAL" else image.height * image.pixel_height
    fx = lens.focal_mm / sensor * fitted
    cx = image.width / 2 - lens.shift_x * fitted
    cy = image.height / 2 + lens.shift_y * fitted / image.pixel_height
    return [[fx, 0.0, cx], [0.0, fx / image.pixel_height, cy], [0.0, 0.0, 1.0]]


def image_from_intrinsics(intrinsics: list[Matrix], width: int, height: int) -> BlenderImage:
    """The pixel aspect of the first frame, which all others must share, as Blender has one for the scene."""
    ratios = [lens[0][0] / lens[1][1] for lens in intrinsics]
    for frame, ratio in enumerate(ratios):
        if abs(ratio / ratios[0] - 1) > 1e-6:
            raise CameraPathError(
                f"intrinsics of frame {frame} have fx / fy = {ratio:g}: expected {ratios[0]:g} as in frame 0, "
                f"because Blender has one pixel aspect for the whole scene."
            )
    ratio = 1.0 if abs(ratios[0] - 1) < 1e-9 else ratios[0]
    # Blender's two aspect numbers are at least 1.
    return BlenderImage(width, height, max(1.0, 1 / ratio), max(1.0, ratio))


def lens_from_intrinsics(intrinsics: Matrix, image: BlenderImage, frame: int = 0) -> BlenderLens:
    (fx, _, cx), (_, _, cy), _ = intrinsics
    focal_mm = fx * SENSOR_MM / image.width
    if focal_mm < SMALLEST_LENS_MM:
        raise CameraPathError(
            f"intrinsics of frame {frame} are a lens of {focal_mm:.3g} mm on a sensor {SENSOR_MM:g} mm wide: "
            f"expected at least {SMALLEST_LENS_MM:g} mm, the shortest that Blender has."
        )
    return BlenderLens(
        focal_mm=focal_mm,
        shift_x=(image.width / 2 - cx) / image.width,
        shift_y=(cy - image.height / 2) * image.pixel_height / image.width,
    )
