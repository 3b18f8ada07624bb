"""View: scenes and cameras, checked and arranged for the ray caster."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sightline.checks import whole_number
from sightline.errors import SightlineError
from sightline.worlds.ground_light import ground_extent, ground_light
from sightline.worlds.rays import Packets
from sightline.worlds.scene import MOVERS, Scene
from sightline.worlds.shading import Surroundings
from sightline.worlds.textures import LATTICE

DEFAULT_FPS = 16.0


@dataclass(frozen=True, eq=False)
class View:
    """Checked arguments: scenes, and per frame a camera row [B, T, 17] and the solids [B, T, N, 8]."""

    scenes: Scene
    camera: Tensor
    solids: Tensor
    width: int
    height: int

    @classmethod
    def checked(
        cls, scenes: Scene, poses: Tensor, lens: Tensor, xi: Tensor, width: int, height: int, seconds: Tensor | None
    ) -> View:
        width, height = whole_number("width", width), whole_number("height", height)
        clips, frames = len(scenes), poses.shape[1] if poses.ndim == 4 else 0
        for name, value, shape in (
            ("camera_to_world", poses, (clips, frames, 4, 4)),
            ("intrinsics", lens, (clips, frames, 3, 3)),
            ("xi", xi, (clips,)),
        ):
            if frames == 0 or tuple(value.shape) != shape:
                expected = str(list(shape)).replace(" 0,", " T,")
                raise SightlineError(f"{name} has shape {tuple(value.shape)}: expected {expected} for {clips} scenes.")
        if seconds is None:
            seconds = (torch.arange(frames) / DEFAULT_FPS).expand(clips, -1)
        elif tuple(seconds.shape) != (clips, frames):
            raise SightlineError(
                f"seconds has shape {tuple(seconds.shape)}: expected {[clips, frames]}, a time per frame."
            )
        focal = torch.stack([lens[..., 0, 0], lens[..., 1, 1], lens[..., 0, 2], lens[..., 1, 2]], -1)
        parts = [poses[..., :3, :3].flatten(2), poses[..., :3, 3], focal, xi[:, None, None].expand(-1, frames, 1)]
        camera = torch.cat([part.to(scenes.device, torch.float32) for part in parts], -1)
        return cls(scenes, camera, scenes.solids_at(seconds.to(scenes.device)), width, height)

    def of_clips(self, chosen: Tensor) -> View:  # [W] whole numbers, on the CPU
        rows = chosen.to(self.camera.device)
        return replace(self, scenes=self.scenes.select(chosen), camera=self.camera[rows], solids=self.solids[rows])

    def packets(self) -> tuple[Packets, Tensor]:
        """One packet per frame, and the scene number of each."""
        frames = self.camera.shape[1]
        clip = torch.arange(len(self.scenes), device=self.camera.device).repeat_interleave(frames)
        return Packets(self.camera.flatten(0, 1), self.solids.flatten(0, 1), self.scenes.room[clip]), clip

    def surroundings(self, clip: Tensor, lit: bool) -> Surroundings:
        """lit: whether colours are rendered, which needs the light on the ground."""
        scene = self.scenes
        return Surroundings(
            clip=clip,
            materials=scene.materials.movedim(-1, 0).contiguous(),
            light=scene.light[clip],
            ground_light=ground_light(scene) if lit else scene.light[:, None],
            ground_extent=ground_extent(scene)[clip],
            lattice=LATTICE.to(scene.device),
            movers=self._blobs(),
        )

    def _blobs(self) -> dict[int, Tensor]:
        """Darkness of the blob of shadow under each moving solid, [B] for each slot that may move.

        On CUDA all slots are kept, so that scenes with and without moving things share one compiled shape."""
        if not self.scenes.moves and not self.camera.is_cuda:
            return {}
        blobs = {slot: 0.65 * (self.scenes.solids[:, slot, 11] > 0).float() for slot in MOVERS}
        return {slot: blob for slot, blob in blobs.items() if blob.is_cuda or bool(blob.any())}
