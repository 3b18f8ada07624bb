"""COLMAP's global mapping (pycolmap, SIFT on the CPU), for videos of 256 pixels or more with enough texture for features.

Without translation there is nothing to triangulate, so if a pure rotation explains the matches, the estimate has rotations
alone. The scale is the median ratio of true depth to COLMAP's depth in frame 0, if that depth is given.
"""

from __future__ import annotations

import importlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from sightline.cameras import lens, se3
from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError
from sightline.evaluation.estimators._metric import metric_scale, pin_to_depth
from sightline.evaluation.estimators._turning import Pair, rotations_alone
from sightline.evaluation.estimators.protocol import Estimate, Hints, check_video, failure
from sightline.evaluation.units import ARBITRARY, SCENE


@dataclass(frozen=True)
class Colmap:
    """Global mapping of all frames with one lens, which is fixed if the hints give it and estimated otherwise."""

    features: int = 4096
    """Maximal number of features per frame."""
    peak_threshold: float = 0.0007
    """Contrast of the faintest feature; a tenth of COLMAP's default, since plain walls have few strong features."""
    overlap: int = 10
    """Each frame is matched with this many following frames, and with those 2, 4, 8 ... frames ahead."""
    worst_reprojection: float = 0.9
    """Mean reprojection error, in pixels, above which a reconstruction is a failure."""
    on_surface: float = 0.7
    """Fraction of frame 0's points that must lie at its known depth after adjustment; below it, the video is a failure."""
    registered: float = 0.9
    """Fraction of the frames that must have a pose; the others are interpolated and listed in the details."""
    seed: int = 0
    threads: int = -1
    name: str = "colmap"
    reads_files: ClassVar[bool] = False

    def unit(self, clip_unit: str, has_depth: bool) -> str | None:
        return clip_unit if has_depth else ARBITRARY

    def require_installed(self) -> None:
        _pycolmap()

    def estimate(self, video: np.ndarray, hints: Hints) -> Estimate:
        video = check_video(video)
        if len(video) < 3:
            raise SightlineError(f"video has {len(video)} frames: expected at least 3 for a reconstruction.")
        colmap = _pycolmap()
        known, depth = hints.intrinsics(video), hints.depth_map(video)
        pinhole = None
        pictures = video
        if known is not None:
            pictures, pinhole, depth = _one_pinhole(video, known[0], known[1], depth)
        with tempfile.TemporaryDirectory(prefix="sightline-colmap-") as folder:
            pairs = self._match(colmap, Path(folder), pictures, pinhole)
            if pinhole is not None:
                turned = rotations_alone(pairs, pinhole, len(video))
                if turned is not None:
                    # Without depth, raw lengths of these videos alone would say nothing about the run that they are part of.
                    poses = se3.from_parts(turned.rotations, torch.zeros(len(video), 3, dtype=torch.float64))
                    return Estimate(
                        self._trajectory(poses, video, hints, known, pinhole, depth is not None), None, turned.explained,
                        {"kind": "rotation", "matches_explained": turned.explained},
                    )  # fmt: skip
            models = self._map(colmap, Path(folder), pinhole is not None)
        if not models:
            return failure("COLMAP found no reconstruction: the frames share too few features.", pairs=len(pairs))
        return self._finish(max(models, key=lambda model: model.num_reg_images()), video, hints, known, depth)

    def _match(self, colmap: Any, folder: Path, pictures: np.ndarray, pinhole: Tensor | None) -> list[Pair]:
        """Features and verified matches in a database; the matches of every pair of frames."""
        (folder / "images").mkdir()
        for number, picture in enumerate(pictures):
            Image.fromarray(picture).save(folder / "images" / f"{number:06d}.png", compress_level=1)
        reader = colmap.ImageReaderOptions()
        reader.camera_model = "SIMPLE_PINHOLE" if pinhole is None else "PINHOLE"
        if pinhole is not None:
            reader.camera_params = ",".join(repr(float(pinhole[i, j])) for i, j in ((0, 0), (1, 1), (0, 2), (1, 2)))
        extraction = colmap.FeatureExtractionOptions()
        extraction.sift.max_num_features = self.features
        extraction.sift.peak_threshold = self.peak_threshold
        extraction.num_threads = self.threads
        matching = colmap.FeatureMatchingOptions()
        matching.num_threads = self.threads
        pairing = colmap.SequentialPairingOptions()
        pairing.overlap, pairing.num_threads = self.overlap, self.threads
        colmap.set_random_seed(self.seed)
        database = folder / "database.db"
        colmap.extract_features(
            database, folder / "images", camera_mode=colmap.CameraMode.SINGLE, reader_options=reader,
            extraction_options=extraction, device=colmap.Device.cpu,
        )  # fmt: skip
        colmap.match_sequential(database, matching, pairing, device=colmap.Device.cpu)
        return _pairs(colmap, database)

    def _map(self, colmap: Any, folder: Path, fixed: bool) -> list[Any]:
        options = colmap.GlobalPipelineOptions()
        options.random_seed = options.mapper.random_seed = self.seed
        options.num_threads = options.mapper.num_threads = self.threads
        options.mapper.bundle_adjustment.refine_focal_length = not fixed
        options.mapper.bundle_adjustment.refine_extra_params = not fixed
        (folder / "models").mkdir()
        try:
            models = colmap.global_mapping(folder / "database.db", folder / "images", folder / "models", options)
        except (RuntimeError, ValueError):
            return []
        return list(models.values())

    def _finish(
        self, model: Any, video: np.ndarray, hints: Hints, known: tuple[Tensor, float] | None, depth: Tensor | None
    ) -> Estimate:
        images = {int(Path(model.images[i].name).stem): model.images[i] for i in model.reg_image_ids()}
        error = float(model.compute_mean_reprojection_error())
        fraction = len(images) / len(video)
        details: dict[str, Any] = {
            "kind": "reconstruction", "registered": len(images), "frames": len(video), "reprojection_error": error,
            "points": int(model.num_points3D()),
        }  # fmt: skip
        confidence = fraction * max(0.0, 1 - error / (2 * self.worst_reprojection))
        if fraction < self.registered or 0 not in images:
            missing = "frame 0" if 0 not in images else f"{len(video) - len(images)} of {len(video)} frames"
            return failure(f"COLMAP placed no camera for {missing}.", confidence, **details)
        if not error <= self.worst_reprojection:
            return failure(
                f"COLMAP's reprojection error is {error:.2f} pixels, above {self.worst_reprojection:g}.",
                confidence,
                **details,
            )
        if depth is not None:
            scale, used = metric_scale(model, images[0], depth)
            if scale is None:
                return failure(f"only {used} points of known depth lie in frame 0: expected 20.", confidence, **details)
            details |= {"scale": scale, "scale_points": used}
            agree = pin_to_depth(_pycolmap(), model, images[0], scale, depth)
            details["on_surface"], confidence = agree, confidence * agree
            if agree < self.on_surface:
                return failure(f"only {agree:.0%} of frame 0's points lie where its depth says.", confidence, **details)
        placed = sorted(images)
        poses = torch.stack([_camera_to_world(images[frame]) for frame in placed])
        at = torch.from_numpy(np.interp(np.arange(len(video)), placed, np.arange(len(placed), dtype=np.float64)))
        poses = se3.anchor(se3.interpolate(poses, at))
        details["interpolated"] = sorted(set(range(len(video))) - set(placed))
        camera = model.cameras[images[0].camera_id].calibration_matrix()
        trajectory = self._trajectory(poses, video, hints, known, torch.as_tensor(camera), depth is not None)
        return Estimate(trajectory, None, confidence, details)

    def _trajectory(
        self, poses: Tensor, video: np.ndarray, hints: Hints, known: tuple[Tensor, float] | None, camera: Tensor,
        metric: bool,
    ) -> Trajectory:  # fmt: skip
        intrinsics, xi = (camera.double(), 0.0) if known is None else known
        height, width = video.shape[1:3]
        unit = ARBITRARY if not metric else hints.lens.unit if hints.lens is not None else SCENE
        fps = hints.lens.fps if hints.lens is not None else 16.0
        return Trajectory(poses, intrinsics, width, height, xi=xi, unit=unit, fps=fps)


def _pycolmap() -> Any:
    try:
        colmap = importlib.import_module("pycolmap")
    except ImportError:
        raise SightlineError(
            "pycolmap is not installed: expected it for the estimator colmap (pip install pycolmap)."
        ) from None
    colmap.logging.minloglevel = 3  # otherwise it prints hundreds of lines per video
    return colmap


def _one_pinhole(
    video: np.ndarray, intrinsics: Tensor, xi: float, depth: Tensor | None
) -> tuple[np.ndarray, Tensor, Tensor | None]:
    """The video resampled to one pinhole lens: zooms and wide lenses take the longest focal length."""
    height, width = video.shape[1:3]
    if xi == 0 and bool((intrinsics == intrinsics[0]).all()):
        return video, intrinsics[0], depth
    # Near the optical axis the unified model is a pinhole of focal length f / (1 + xi).
    target = intrinsics[intrinsics[:, 0, 0].argmax()].clone()
    target[0, 0], target[1, 1] = target[0, 0] / (1 + xi), target[1, 1] / (1 + xi)
    rays = lens.pixel_rays(target, lens.grid_centres(width, height, width, height))
    pixels = lens.project(intrinsics[:, None, None], rays[None].expand(len(video), -1, -1, -1), xi)  # [T, H, W, 2]
    grid = (pixels / torch.tensor([width, height]) * 2 - 1).float()
    source = torch.from_numpy(video.copy()).permute(0, 3, 1, 2).float()
    seen = functional.grid_sample(source, grid, align_corners=False, padding_mode="border")
    if depth is not None:  # a ray is the same for either lens, and so is its depth along the axis
        depth = functional.grid_sample(
            depth[None, None], grid[:1], mode="nearest", align_corners=False, padding_mode="border"
        )[0, 0]
    return seen.round().clamp(0, 255).byte().permute(0, 2, 3, 1).numpy(), target, depth


def _pairs(colmap: Any, path: Path) -> list[Pair]:
    with colmap.Database.open(path) as database:
        names = {image.image_id: int(Path(image.name).stem) for image in database.read_all_images()}
        keypoints = {i: torch.from_numpy(np.array(database.read_keypoints(i)[:, :2], dtype=np.float64)) for i in names}
        ids, geometries = database.read_two_view_geometries()
        pairs = []
        for pair, geometry in zip(ids, geometries, strict=True):
            a, b = colmap.pair_id_to_image_pair(pair)
            match = torch.from_numpy(np.array(geometry.inlier_matches, dtype=np.int64))
            if len(match):
                pairs.append(Pair(names[a], names[b], keypoints[a][match[:, 0]], keypoints[b][match[:, 1]]))
    return pairs


def _camera_to_world(image: Any) -> Tensor:  # [4, 4]
    world_to_camera = torch.eye(4, dtype=torch.float64)
    world_to_camera[:3] = torch.from_numpy(np.array(image.cam_from_world().matrix(), dtype=np.float64))
    return se3.inverse(world_to_camera)
