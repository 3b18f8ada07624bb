"""The pipeline of HY-WorldPlay-5B: chunk after chunk of four latent frames, in the four steps that it was distilled to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from diffusers.pipelines.wan.pipeline_output import WanPipelineOutput
from diffusers.utils.torch_utils import get_module_execution_device
from torch import Tensor

from sightline.backbones.hy_worldplay_memory import context_frames
from sightline.backbones.hy_worldplay_model import ACTION, CONTEXT_FRAMES, actions, frame_poses
from sightline.backbones.model_info import ModelInfo
from sightline.backbones.stock import WanImageToVideoPipeline
from sightline.backbones.wan_configs import HY_CHUNK, HY_TIMESTEPS
from sightline.cameras.token_grid import TokenGrid
from sightline.cameras.tokens import CameraTokens
from sightline.errors import SightlineError

_CLEAN = 14.0  # the timestep that the release gives to the first frame and to earlier chunks, which have no noise


class HyWorldPlayPipeline(WanImageToVideoPipeline):
    """WanImageToVideoPipeline that denoises the video in chunks, each of which sees earlier ones (`context_frames`).

    Unlike in the release, the latents of the first frame are the mean of the VAE's distribution, not a sample, and the points
    that choose the memory are always the same.
    """

    @torch.no_grad()
    def __call__(
        self,
        image: Any,
        prompt: str,
        negative_prompt: str | None = None,  # not used: the distilled model has no guidance
        height: int = 704,
        width: int = 1280,
        num_frames: int = 61,
        num_inference_steps: int = len(HY_TIMESTEPS),
        guidance_scale: float = 1.0,
        generator: torch.Generator | None = None,
        output_type: str = "np",
        return_dict: bool = True,
        attention_kwargs: dict[str, Any] | None = None,
        callback_on_step_end: Callable[..., dict[str, Any]] | None = None,
        max_sequence_length: int = 512,
    ) -> Any:
        camera = (attention_kwargs or {}).get("camera")
        if not isinstance(camera, CameraTokens):
            raise SightlineError(
                "attention_kwargs has no camera: expected CameraTokens, which this model always needs."
            )
        ModelInfo.of(self).require_sampling(num_inference_steps, guidance_scale)
        device = self._execution_device
        self._guidance_scale, self._attention_kwargs, self._interrupt = guidance_scale, attention_kwargs, False
        text, _ = self.encode_prompt(prompt, None, False, max_sequence_length=max_sequence_length, device=device)
        picture = self.video_processor.preprocess(image, height=height, width=width).to(device, torch.float32)
        latents, first, _ = self.prepare_latents(
            picture, 1, self.vae.config.z_dim, height, width, num_frames, torch.float32, device, generator
        )
        latents[:, :, :1] = first
        text = text.to(self.transformer.dtype)
        poses = frame_poses(camera)  # [1, t, 4, 4]
        action = actions(poses)
        with self.progress_bar(total=latents.shape[2] // HY_CHUNK * num_inference_steps) as bar:
            for start in range(0, latents.shape[2], HY_CHUNK):
                seen = [*context_frames(poses[0], start), *range(start, start + HY_CHUNK)]
                conditions = {
                    "camera": of_frames(camera, seen),
                    ACTION: action[:, seen],
                    CONTEXT_FRAMES: len(seen) - HY_CHUNK,
                }
                for step in range(num_inference_steps):
                    latents = self._denoise(latents, seen, step, text, conditions)
                    if callback_on_step_end is not None:
                        timestep = torch.tensor(HY_TIMESTEPS[step])
                        latents = callback_on_step_end(self, step, timestep, {"latents": latents})["latents"]
                    bar.update()
        video = latents if output_type == "latent" else self._decode(latents, output_type)
        self.maybe_free_model_hooks()
        return WanPipelineOutput(frames=video) if return_dict else (video,)

    def _denoise(
        self, latents: Tensor, seen: list[int], step: int, text: Tensor, conditions: dict[str, Any]
    ) -> Tensor:  # [1, C, t, H, W] -> [1, C, t, H, W]
        """One Euler step of the chunk in the last of the latent frames `seen`."""
        now, after = (*HY_TIMESTEPS, 0.0)[step : step + 2]
        noisy = [frame for frame in seen[-HY_CHUNK:] if frame > 0]  # the first frame is given
        timesteps = torch.full((1, len(seen)), _CLEAN, device=latents.device)
        timesteps[:, -len(noisy) :] = now
        velocity = self.transformer(
            hidden_states=latents[:, :, seen].to(self.transformer.dtype),
            timestep=timesteps.repeat_interleave(conditions["camera"].grid.tokens_per_frame, dim=1),
            encoder_hidden_states=text,
            attention_kwargs=conditions,
            return_dict=False,
        )[0]
        latents = latents.clone()
        latents[:, :, noisy] += (after - now) / 1000 * velocity[:, :, -len(noisy) :].to(latents.dtype)
        return latents

    def _decode(self, latents: Tensor, output_type: str) -> Any:
        config = self.vae.config
        latents = latents.to(get_module_execution_device(self.vae), self.vae.dtype)
        mean, std = (
            torch.tensor(config[name]).view(1, -1, 1, 1, 1).to(latents) for name in ("latents_mean", "latents_std")
        )
        video = self.vae.decode(latents * std + mean, return_dict=False)[0]
        return self.video_processor.postprocess_video(video, output_type=output_type)


def of_frames(camera: CameraTokens, frames: list[int]) -> CameraTokens:
    """The tokens of some latent frames."""
    grid = camera.grid
    rows = camera.rows.unflatten(1, (grid.frames, grid.tokens_per_frame))[:, frames].flatten(1, 2)
    return CameraTokens(rows, TokenGrid(len(frames), grid.rows, grid.columns))
