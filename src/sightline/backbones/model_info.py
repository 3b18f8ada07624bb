"""ModelInfo: what the configuration files of a model tell about it, before any weight is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sightline.backbones.config_files import Configs
from sightline.backbones.families import family_of, family_of_config, token_stride
from sightline.backbones.wan_configs import (
    DREAMX_5B,
    EXPERTS,
    FUN_5B,
    FUN_21_14B,
    FUN_A14B,
    HY_CHUNK,
    HY_DEFAULTS,
    HY_WORLDPLAY,
    I2V_21,
    I2V_A14B,
    T2V_21,
    T2V_A14B,
    TI2V_5B,
    Defaults,
    VideoShape,
    WanConfig,
)
from sightline.cameras.token_grid import TokenGrid, TokenStride
from sightline.checks import whole_number
from sightline.errors import SightlineError
from sightline.files import reason

if TYPE_CHECKING:
    from sightline.backbones.stock import AnyPipeline
    from sightline.cameras.trajectory import Trajectory

_LAB_WIDTH = 1024  # a transformer with fewer channels than this is taken for the lab model
_SAME_PIXEL = 0.5  # intrinsics that differ by less are one lens, in pixels
_ROPE_MAX_SEQ_LEN = 1024  # diffusers' default, for configurations that do not name it


# More steps or guidance bring the lab model's videos no nearer to the true views (docs/lab.md).
LAB = Defaults(num_frames=33, width=128, height=128, num_inference_steps=12, guidance_scale=1.0)
LAB_SHAPES = (VideoShape(LAB.num_frames, LAB.width, LAB.height), VideoShape(49, 128, 128), VideoShape(33, 176, 96))


@dataclass(frozen=True)
class ModelInfo:
    """The strides of the tokens, the inputs that the model takes, and its default settings."""

    stride: TokenStride
    takes_image: bool
    takes_text_alone: bool
    has_camera: bool  # whether a camera encoding was saved with the transformers
    defaults: Defaults
    rope_max_seq_len: int = _ROPE_MAX_SEQ_LEN  # the most tokens along one axis
    trained_shapes: tuple[VideoShape, ...] = ()  # empty where they are not known
    pinhole_only: bool = False  # whether the camera weights know no distorted lens
    fixed_lens: bool = False  # whether they know one lens alone
    centred_lens: bool = False  # whether they know no principal point off the middle
    needs_camera: bool = False  # whether the model cannot run without a camera, which is then part of it
    latent_chunk: int = 1  # latent frames that it generates at a time, whose multiple a video has
    window: int | None = None  # the most frames that it generates at once
    is_distilled: bool = False  # whether it only works with its own number of steps and guidance

    @classmethod
    def from_configs(cls, configs: Configs) -> ModelInfo:
        """Of a model whose configuration files were read (see read_configs)."""
        try:
            return cls._from_configs(configs)
        except SightlineError:
            raise
        except Exception as error:  # entries that are missing, or of any other type or size than a video model's
            raise SightlineError(
                f"the model's configuration is no pipeline's ({type(error).__name__}: {reason(error)}): expected one."
            ) from None

    @classmethod
    def _from_configs(cls, configs: Configs) -> ModelInfo:
        pipeline, transformer, vae = configs[""], configs["transformer"], configs["vae"]
        family = family_of_config(pipeline)
        takes = family.takes(pipeline, transformer, vae)
        encodings = [configs[name].get("encoding") for name in EXPERTS if name in configs]
        if family.defaults is None:
            release = _release(pipeline, transformer["in_channels"], vae["z_dim"], encodings[0] or {})
            defaults, trained_shapes = release.defaults, release.trained_shapes
        else:
            defaults, trained_shapes = family.defaults, ()
        is_lab = (
            not family.own_camera
            and transformer["num_attention_heads"] * transformer["attention_head_dim"] < _LAB_WIDTH
        )
        info = cls(
            stride=token_stride(vae, transformer),
            takes_image="image" in takes,
            takes_text_alone="text" in takes,
            has_camera=all(encoding is not None for encoding in encodings),
            defaults=LAB if is_lab else defaults,
            rope_max_seq_len=whole_number("rope_max_seq_len", transformer.get("rope_max_seq_len") or _ROPE_MAX_SEQ_LEN),
            trained_shapes=LAB_SHAPES if is_lab else trained_shapes,
            pinhole_only=any(encoding.get("pinhole") or encoding.get("lens") for encoding in encodings if encoding),
            fixed_lens=any(encoding.get("lens") for encoding in encodings if encoding),
            centred_lens=any(encoding.get("lens") for encoding in encodings if encoding),
            window=family.window,
        )
        if family.own_camera:
            return replace(info, **_OWN_CAMERA)
        return replace(info, **_HY_WORLDPLAY) if transformer.get("_class_name") == HY_WORLDPLAY else info

    @classmethod
    def of(cls, pipe: AnyPipeline) -> ModelInfo:
        """Of a pipeline that has been loaded."""
        parts = {name: getattr(pipe, name, None) for name in (*EXPERTS, "vae")}
        configs = {
            name: {**part.config, "_class_name": type(part).__name__}
            for name, part in parts.items()
            if part is not None
        }
        if missing := [name for name in ("transformer", "vae") if name not in configs]:
            raise SightlineError(
                f"pipe has no {missing[0]}: expected one; diffusers' from_pipe leaves out a transformer with a camera, unless "
                "it is given as transformer=pipe.transformer."
            )
        return cls.from_configs({"": {**pipe.config, "_class_name": family_of(pipe).text_pipeline}, **configs})

    def grid(self, num_frames: int, width: int, height: int) -> TokenGrid:
        """The token grid of a video of this size."""
        return TokenGrid.from_video(num_frames, width, height, self.stride)

    def require_conditioning(self, *, blind: bool = False, camera_guidance_scale: float = 1.0) -> None:
        """Refuse a pass without the camera where the model has none."""
        if self.needs_camera and (blind or camera_guidance_scale != 1.0):
            what = "blind is given" if blind else f"camera_guidance_scale is {camera_guidance_scale:g}"
            raise SightlineError(f"{what}: expected a camera in every pass, since this model cannot run without one.")

    def require_sampling(self, num_inference_steps: int, guidance_scale: float) -> None:
        """Refuse other steps and guidance than those that a model was distilled to."""
        own = self.defaults
        if self.is_distilled and (num_inference_steps, guidance_scale) != (own.num_inference_steps, own.guidance_scale):
            raise SightlineError(
                f"num_inference_steps is {num_inference_steps} and guidance_scale is {guidance_scale:g}: expected "
                f"{own.num_inference_steps} and {own.guidance_scale:g}, to which this model was distilled."
            )

    def require_lens(self, trajectory: Trajectory) -> None:
        """Refuse a lens that the model's camera weights cannot represent."""
        if self.pinhole_only and trajectory.xi != 0:
            raise SightlineError(
                f"trajectory has a lens with xi {trajectory.xi:g}: expected a pinhole camera (xi 0) for this model, which "
                "knows no other."
            )
        changes = float((trajectory.intrinsics - trajectory.intrinsics[0]).abs().max())
        if self.fixed_lens and changes > _SAME_PIXEL:
            raise SightlineError(
                f"trajectory has a lens that changes by {changes:.1f} pixels: expected one lens for the whole video, since this "
                "model knows no zoom."
            )
        middle = trajectory.intrinsics.new_tensor([trajectory.width / 2, trajectory.height / 2])
        off = float((trajectory.intrinsics[:, :2, 2] - middle).abs().max())
        if self.centred_lens and off > _SAME_PIXEL:
            raise SightlineError(
                f"trajectory has its principal point {off:.1f} pixels off the middle: expected a centred lens for this model, "
                "which knows no other."
            )

    def require_size(self, width: int, height: int) -> None:
        """Refuse a size that does not fill whole tokens, or that has more of them than the model can count."""
        most_width, most_height = self.rope_max_seq_len * self.stride.width, self.rope_max_seq_len * self.stride.height
        if width > most_width or height > most_height:
            raise SightlineError(
                f"size is {width}x{height}: expected at most {most_width}x{most_height} for this model."
            )
        nearest = self.stride.nearest_size(width, height)
        if nearest != (width, height):
            raise SightlineError(
                f"size is {width}x{height}: expected multiples of {self.stride.width}x{self.stride.height}, "
                f"the nearest is {nearest[0]}x{nearest[1]}."
            )

    def require_num_frames(self, num_frames: int) -> None:
        """Refuse a number of frames that does not fill whole latent frames, or has more than the model can count."""
        most = (self.rope_max_seq_len - 1) * self.stride.frames + 1
        if num_frames > most:
            raise SightlineError(f"num_frames is {num_frames}: expected at most {most} for this model.")
        if (nearest := self.stride.nearest_num_frames(num_frames)) != num_frames:
            raise SightlineError(
                f"num_frames is {num_frames}: expected {self.stride.frames} n + 1 for this model, the nearest is {nearest}."
            )
        chunk = self.latent_chunk * self.stride.frames
        if (num_frames + self.stride.frames - 1) % chunk:
            nearest = max(round((num_frames + self.stride.frames - 1) / chunk), 1) * chunk - self.stride.frames + 1
            raise SightlineError(
                f"num_frames is {num_frames}: expected {chunk} n - {self.stride.frames - 1} for this model, which generates "
                f"chunks; the nearest is {nearest}."
            )

    def require_one_window(self, num_frames: int, base_num_frames: int | None = None) -> None:
        """Refuse a camera for a video that is made window by window: the model does not know which frames a window has.

        base_num_frames: the length of a window, where a call changes it.
        """
        if self.window is None:
            return
        window = base_num_frames or self.window
        if num_frames > window:
            raise SightlineError(
                f"trajectory has {num_frames} frames, more than base_num_frames {window}: expected at most as many, since each "
                "window of a longer video would get the camera of the first."
            )


_HY_WORLDPLAY: dict[str, Any] = {
    "takes_text_alone": False,
    "has_camera": True,
    "defaults": HY_DEFAULTS,
    "trained_shapes": (),
    "pinhole_only": True,
    "centred_lens": True,
    "needs_camera": True,
    "latent_chunk": HY_CHUNK,
    "is_distilled": True,
}
_OWN_CAMERA: dict[str, Any] = {"has_camera": True, "pinhole_only": True, "needs_camera": True}


def _release(
    pipeline: Mapping[str, Any], in_channels: int, latent_channels: int, encoding: Mapping[str, Any]
) -> WanConfig:
    """The release of Wan that a model is taken for: by the channels that it takes beside the latents, by its experts, and by the
    settings of the encoding that only the camera models of others have."""
    image_channels = in_channels > latent_channels
    if pipeline.get("expand_timesteps"):
        return DREAMX_5B if encoding.get("lens") else FUN_5B if image_channels else TI2V_5B
    if in_channels == 2 * latent_channels:
        return FUN_21_14B
    if pipeline.get("boundary_ratio") is None:
        return I2V_21 if image_channels else T2V_21
    if not image_channels:
        return T2V_A14B
    return FUN_A14B if encoding.get("pinhole") else I2V_A14B
