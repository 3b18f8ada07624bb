"""A reconstruction made metric: its scale, and its points, from the known depth of frame 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from sightline.cameras import lens

_FARTHEST = 100.0  # depths beyond this many times the median tell nothing about scale (the sky)
_AGREES = (0.1, 0.03)  # relative differences of depth, in turn, within which a point lies on the surface that is given


def metric_scale(model: Any, image: Any, depth: Tensor) -> tuple[float | None, int]:
    """Median of true over found depth at the features of frame 0, and of how many."""
    _, _, found, true = _depths(model, image, depth)
    good = (found > 0) & (true < _FARTHEST * depth.median())
    if int(good.sum()) < 20:
        return None, int(good.sum())
    return float((true[good] / found[good]).median()), int(good.sum())


def pin_to_depth(colmap: Any, model: Any, image: Any, scale: float, depth: Tensor) -> float:
    """Bring the model to frame 0 and to scale, put the points whose depth agrees exactly where it says, and adjust the rest.

    A forward motion towards a wall hardly tells a turn from a step aside; known points do. Returns the share of frame 0's points
    whose depth then agrees: where few do, the points are wrong, and with them the cameras.
    """
    frame_0 = image.cam_from_world()
    rotation, shift = frame_0.rotation, np.asarray(frame_0.translation)
    model.transform(colmap.Sim3d(scale, rotation, scale * shift))
    for tolerance in _AGREES:
        _adjusted_to(colmap, model, image, depth, tolerance)
    _, _, found, true = _depths(model, image, depth)
    near = true < _FARTHEST * depth.median()
    return float(((found / true - 1).abs()[near] < _AGREES[-1]).double().mean())


def _adjusted_to(colmap: Any, model: Any, image: Any, depth: Tensor, tolerance: float) -> None:
    numbers, pixels, found, true = _depths(model, image, depth)
    camera = model.cameras[image.camera_id]
    rays = lens.pixel_rays(torch.as_tensor(camera.calibration_matrix()), pixels)
    places = (rays / rays[:, 2:] * true[:, None]).numpy()
    config = colmap.BundleAdjustmentConfig()
    for number in model.reg_image_ids():
        config.add_image(number)
    config.set_constant_cam_intrinsics(image.camera_id)
    config.set_constant_rig_from_world_pose(image.frame_id)
    agree = ((found / true - 1).abs() < tolerance).tolist()
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
    """Points seen in frame 0: their numbers, pixels [n, 2], depths found [n] and depths given [n]."""
    pose = torch.from_numpy(np.array(image.cam_from_world().matrix(), dtype=np.float64))
    seen = [point for point in image.points2D if point.has_point3D()]
    numbers = [int(point.point3D_id) for point in seen]
    places = torch.tensor(np.array([model.points3D[i].xyz for i in numbers]).reshape(-1, 3))
    pixels = torch.tensor(np.array([point.xy for point in seen]).reshape(-1, 2))
    found = (places @ pose[:, :3].T + pose[:, 3])[:, 2]
    grid = (pixels / torch.tensor([depth.shape[1], depth.shape[0]]) * 2 - 1)[None, None].float()
    inverse = functional.grid_sample(1 / depth[None, None], grid, align_corners=False, padding_mode="border")[0, 0, 0]
    return numbers, pixels, found, 1 / inverse.double()
