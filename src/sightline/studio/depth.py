"""The depth of the first picture, from which its point cloud is made: a plane, a box room, a file, a world, or a depth model.

Depth is [H, W] float32 along the optical axis, in scene units; it may be infinite in the sky.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from sightline.backbones.stock import SAFETENSORS
from sightline.cameras import lens
from sightline.cameras.trajectory import Trajectory
from sightline.checks import number
from sightline.documents import require_regular_file
from sightline.errors import SightlineError
from sightline.files import reason
from sightline.worlds import FAR, Scene, render_depth

SOURCES = ("plane", "box room", "file", "world", "model")
DEFAULT_MODEL = "depth-anything/Depth-Anything-V2-Small-hf"
DEFAULT_DISTANCE = 2.0  # scene units: the subject of the moves
_MAX_BYTES = 256 * 2**20
_NPY = b"\x93NUMPY"  # what every .npy file starts with
_HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)
_MAX_RATIO = 100.0  # of the farthest to the nearest point of a relative depth
_MIN_DEPTH = 1e-3
_QUANTILE = 0.25  # the subject stands before its background


def plane_depth(trajectory: Trajectory, distance: float = DEFAULT_DISTANCE) -> Tensor:  # -> [H, W]
    """A wall that faces the camera."""
    distance = number("distance", distance, above=0.0)
    return torch.full((trajectory.height, trajectory.width), distance, dtype=torch.float32)


def box_room_depth(
    trajectory: Trajectory,
    distance: float = 2 * DEFAULT_DISTANCE,
    across: float = 4.0,
    up: float = 1.2,
    down: float = 1.5,
) -> Tensor:  # -> [H, W]
    """A room seen from within: a back wall at `distance`, side walls `across` apart, a ceiling and a floor."""
    sizes = {"distance": distance, "across": across, "up": up, "down": down}
    sizes = {name: number(name, size, above=0.0) for name, size in sizes.items()}
    x, y, z = _rays(trajectory).unbind(-1)
    z = z.clamp_min(1e-6)
    along = torch.full_like(z, sizes["distance"])
    for component, low, high in ((x, across / 2, across / 2), (y, up, down)):
        slope = component / z
        wall = torch.where(slope > 0, high, low) / slope.abs().clamp_min(1e-9)
        along = torch.minimum(along, wall)
    return along.float()


def _rays(trajectory: Trajectory) -> Tensor:  # -> [H, W, 3]
    """Unit directions through the pixels of the first frame, in camera coordinates."""
    centres = lens.grid_centres(trajectory.width, trajectory.height, trajectory.width, trajectory.height)
    return lens.pixel_rays(trajectory.intrinsics[0], centres, trajectory.xi)


def read_depth(path: str | Path, name: str | None = None) -> np.ndarray:  # -> [h, w] float32
    """The array of a .npy file, the depth of a whole picture. name: for errors."""
    name = name or str(path)
    expected = "expected a .npy file of depths [H, W] above 0"
    require_regular_file(path, "a .npy file")
    if Path(path).stat().st_size > _MAX_BYTES:
        raise SightlineError(f"{name} has more than {_MAX_BYTES >> 20} MiB: {expected}.")
    with Path(path).open("rb") as file:
        if file.read(len(_NPY)) != _NPY:  # numpy would take it for a pickle, and advise to load it unsafely
            raise SightlineError(f"{name} is no .npy file: {expected}.")
    try:
        array = np.load(path, allow_pickle=False, mmap_mode="r")
        shape, kind = array.shape, array.dtype.kind
        values = np.array(array, dtype=np.float32) if len(shape) == 2 and kind in "fiu" else None
    except Exception as error:  # whatever numpy raises for a damaged header, or an archive, which has no shape
        raise SightlineError(f"{name} cannot be read ({reason(error)}): {expected}.") from None
    if kind not in "fiu":
        raise SightlineError(f"{name} holds values of type {array.dtype}: {expected}.")
    if values is None or 0 in shape:
        raise SightlineError(f"{name} has shape {list(shape)}: {expected}.")
    return check_depth(values, name)


def check_depth(values: np.ndarray, name: str) -> np.ndarray:  # [h, w]
    """Refuses depths that are no numbers or not in front of the camera. They may be infinite, as in the sky."""
    if np.isnan(values).any() or (values <= 0).any():
        raise SightlineError(f"{name} holds values that are not above 0: expected depths [H, W] above 0.")
    if not np.isfinite(values).any():
        raise SightlineError(f"{name} holds no finite value: expected depths [H, W], infinite only in the sky.")
    return values


def fitted(values: np.ndarray, trajectory: Trajectory) -> Tensor:  # [h, w] -> [H, W]
    """Scaled to cover the picture and cropped in the middle, as the picture is, without mixing the depths of surfaces."""
    rows, columns = values.shape
    scale = max(trajectory.width / columns, trajectory.height / rows)
    left, top = (columns - trajectory.width / scale) / 2, (rows - trajectory.height / scale) / 2
    x = (left + (np.arange(trajectory.width) + 0.5) / scale).astype(int).clip(0, columns - 1)
    y = (top + (np.arange(trajectory.height) + 0.5) / scale).astype(int).clip(0, rows - 1)
    return torch.from_numpy(np.ascontiguousarray(values[y][:, x], dtype=np.float32))


def world_depth(scene: Scene, trajectory: Trajectory) -> Tensor:  # -> [H, W] metres
    """The true depth of a world in the first frame of a trajectory that is given in the world's coordinates."""
    pose, optics = trajectory.camera_to_world[None, :1], trajectory.intrinsics[None, :1]
    xi = torch.tensor([trajectory.xi])
    depth = render_depth(scene, pose, optics, xi, trajectory.width, trajectory.height)[0, 0]
    return torch.where(depth < FAR, depth, torch.inf)


def model_depth(
    image: Image.Image, model: str, distance: float = DEFAULT_DISTANCE, estimator: Any = None
) -> np.ndarray:  # -> [h, w] float32
    """Depth from a `transformers` depth-estimation model, by its id or folder.

    A model of metric depth, such as depth_pro, is used as it is. One of relative inverse depth, such as depth_anything, has no
    unit: its depth is scaled so that the subject in the middle is at `distance`.
    estimator: another callable, from an image to {"predicted_depth": tensor}.
    """
    estimator = estimator or _load(model)
    try:
        found = estimator(image)["predicted_depth"]
        values = torch.as_tensor(found).detach().float().cpu().squeeze().numpy()
    except Exception as error:  # a model of another kind, or one that fails on this picture
        raise SightlineError(
            f"model {model!r} cannot estimate depth ({reason(error)}): expected a depth-estimation model."
        ) from None
    if values.ndim != 2:
        raise SightlineError(f"model {model!r} gave depth of shape {list(values.shape)}: expected [H, W].")
    if not _is_metric(model, estimator):
        nearest = max(float(values.max()), 1e-6)
        values = 1.0 / np.maximum(values, nearest / _MAX_RATIO)
        values = values * (distance / subject_depth(torch.from_numpy(values)))
    return check_depth(np.maximum(values, _MIN_DEPTH), f"the depth of model {model!r}")


def require_hub_id(model: str) -> str:
    """The id of a model on the hub. A folder is refused: a page reads nothing outside the output folder."""
    if not _HUB_ID.fullmatch(model) or Path(model).exists():
        raise SightlineError(f"depth model is {model!r}: expected the id of a model on the hub, such as owner/name.")
    return model


def _load(model: str) -> Any:
    try:
        from transformers import pipeline

        return pipeline("depth-estimation", model=model, model_kwargs=dict(SAFETENSORS))
    except Exception as error:  # transformers raises whatever the hub, the files or torch do
        raise SightlineError(
            f"depth model {model!r} cannot be loaded ({reason(error)}): expected the id of a depth-estimation "
            "model on the hub, or downloaded already, with safetensors."
        ) from None


def _is_metric(model: str, estimator: Any) -> bool:
    config = getattr(getattr(estimator, "model", None), "config", None)
    kind = str(getattr(config, "model_type", model)).lower()
    return "depth_pro" in kind or "zoedepth" in kind or getattr(config, "depth_estimation_type", "") == "metric"


def subject_depth(depth: Tensor) -> float:  # [H, W]
    """The depth of the subject: the lower quartile of the middle ninth of the picture."""
    height, width = depth.shape
    middle = depth[height // 3 : height - height // 3, width // 3 : width - width // 3].flatten()
    middle = middle[middle.isfinite()]
    return float(middle.quantile(_QUANTILE)) if len(middle) else DEFAULT_DISTANCE
