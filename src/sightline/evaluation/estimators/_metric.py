"""Makes a reconstruction metric: its scale and its points, from the known depth of frame 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from sightline.cameras import lens

_FARTHEST = 100.0  # depths beyond this many times the median (the sky) say nothing about scale
_AGREES = (
    0.1,
    0.03,
)  # relative difference of depth within which a point lies on the known surface, in successive rounds


def metric_scale(model: Any, image: Any, depth: Tensor) -> tuple[float | None, int]:
    """The median ratio of true to reconstructed depth at the features of frame 0, and the number of features used."""
    _, _, reconstructed, true = _depths(model, image, depth)
    good = (reconstructed > 0) & (true < _FARTHEST * depth.median())
    if int(good.sum()) < 20:
        return None, int(good.sum())
    return float((true[good] / reconstructed[good]).median()), int(good.sum())


def pin_to_depth(colmap: Any, model: Any, image: Any, scale: float, depth: Tensor) -> float:
    """Move the model to frame 0 and to scale, fix the points whose depth agrees at their known depth, and adjust the rest.

    A forward motion towards a wall hardly distinguishes a rotation from a sideways step; points of known depth do. Returns the
    fraction of frame 0's points whose depth then agrees. If few do, the points are wrong, and so are the cameras.
    """
    frame_0 = image.cam_from_world()
    rotation, shift = frame_0.rotation, np.asarray(frame_0.translation)
    model.transform(colmap.Sim3d(scale, rotation, scale * shift))
    for tolerance in _AGREES:
        _adjust(colmap, model, image, depth, tolerance)
    _, _, reconstructed, true = _depths(model, image, depth)
    near = true < _FARTHEST * depth.median()
    return float(((reconstructed / true - 1).abs()[near] < _AGREES[-1]).double().mean())


def _adjust(colmap: Any, model: Any, image: Any, depth: Tensor, tolerance: float) -> None:
    numbers, pixels, reconstructed, true = _depths(model, image, depth)
    camera = model.cameras[image.camera_id]
    rays = lens.pixel_rays(torch.as_tensor(camera.calibration_matrix()), pixels)
    places = (rays / rays[:, 2:] * true[:, None]).numpy()
    config = colmap.BundleAdjustmentConfig()
    for number in model.reg_image_ids():
        config.add_image(number)
    config.set_constant_cam_intrinsics(image.camera_id)
    config.set_constant_rig_from_world_pose(image.frame_id)
    agree = ((reconstructed / true - 1).abs() < tolerance).tolist()
    for number, place, fixed in zip(numbers, places, agree, strict=True):
        if fixed:
            model.points3D[number].xyz = place
            config.add_constant_point(number)
    options = colmap.BundleAdjustmentOptions()
    options.print_summary = False
    options.ceres.loss_function_type = colmap.LossFunctionType.CAUCHY
    options.ceres.loss_function_scale = 0.3  # pixels, about the spread of good matches
    options.ceres.solver_options.function_tolerance = 1e-8
    colmap.create_default_bundle_adjuster(options, config, model).solve()


def _depths(model: Any, image: Any, depth: Tensor) -> tuple[list[int], Tensor, Tensor, Tensor]:
    """Points seen in frame 0: their ids, pixels [n, 2], reconstructed depths [n] and known depths [n]."""
    pose = torch.from_numpy(np.array(image.cam_from_world().matrix(), dtype=np.float64))
    seen = [point for point in image.points2D if point.has_point3D()]
    numbers = [int(point.point3D_id) for point in seen]
    places = torch.tensor(np.array([model.points3D[i].xyz for i in numbers]).reshape(-1, 3))
    pixels = torch.tensor(np.array([point.xy for point in seen]).reshape(-1, 2))
    reconstructed = (places @ pose[:, :3].T + pose[:, 3])[:, 2]
    grid = (pixels / torch.tensor([depth.shape[1], depth.shape[0]]) * 2 - 1)[None, None].float()
    inverse = functional.grid_sample(1 / depth[None, None], grid, align_corners=False, padding_mode="border")[0, 0, 0]
    return numbers, pixels, reconstructed, 1 / inverse.double()
