"""The models that are timed: the released configurations with random weights, and each row's variant on the same tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from diffusers import WanTransformer3DModel
from torch import Tensor

from sightline.backbones.accelerate import accelerate
from sightline.backbones.low_precision_linear import to_fp8
from sightline.backbones.sana_wm_config import SANA_WM_RELEASE, SanaWMConfig
from sightline.backbones.wan import CameraWanTransformer3DModel
from sightline.backbones.wan_configs import FUN_5B, FUN_21_14B, I2V_A14B, TI2V_5B, WanConfig
from sightline.cameras import moves
from sightline.cameras.token_grid import TokenGrid, TokenStride
from sightline.cameras.tokens import CameraTokens
from sightline.checks import whole_number
from sightline.encodings import Encoding, encoding_from_config
from sightline.errors import SightlineError
from sightline.parsing import parse_query, parse_scalar, parse_size

Size = Literal["5b", "14b", "fun-5b", "fun-2.1-14b", "sana-wm"]
Mode = Literal["eager", "compiled", "fused", "fused compiled", "fused fp8 compiled"]
MODES: tuple[Mode, ...] = ("eager", "compiled", "fused", "fused compiled", "fused fp8 compiled")
METHODS = ("stock", "scope", "ucpe", "prope", "recammaster", "cameractrl")

_WAN_RELEASES: dict[str, WanConfig] = {"5b": TI2V_5B, "14b": I2V_A14B, "fun-5b": FUN_5B, "fun-2.1-14b": FUN_21_14B}
_RELEASES: dict[str, WanConfig | SanaWMConfig] = {**_WAN_RELEASES, "sana-wm": SANA_WM_RELEASE}
_TINY_SANA_WM = {"num_layers": 2, "hidden_size": 48, "num_attention_heads": 2, "linear_head_dim": 24, "in_channels": 8}
_TINY = {"num_attention_heads": 8, "attention_head_dim": 24, "ffn_dim": 32, "text_dim": 32, "num_layers": 2}
TEXT_TOKENS = 512  # of a padded prompt


@dataclass(frozen=True)
class Setting:
    """One model at one size of video. tiny: the same code at widths small enough to rehearse on a CPU."""

    model: Size
    layers: int | None = None
    num_frames: int = 81
    width: int = 832
    height: int = 480
    tiny: bool = False

    @classmethod
    def from_options(
        cls,
        model: Size,
        layers: int | None = None,
        num_frames: int | None = None,
        size: str | None = None,
        tiny: bool = False,
    ) -> Setting:
        """A checked setting from the options of a command. Default size: the paper's video, or a tiny one."""
        width, height = parse_size(size or ("64x64" if tiny else "832x480"))
        num_frames = (9 if tiny else 81) if num_frames is None else whole_number("num_frames", num_frames)
        setting = cls(
            model, None if layers is None else whole_number("layers", layers), num_frames, width, height, tiny
        )
        stride = setting.stride
        if (nearest := stride.nearest_num_frames(num_frames)) != num_frames:
            raise SightlineError(
                f"num_frames is {num_frames}: expected {stride.frames} n + 1, the nearest is {nearest}."
            )
        wide, high = stride.nearest_size(width, height)
        if (wide, high) != (width, height):
            raise SightlineError(
                f"size is {size}: expected multiples of {stride.width} at {model}, the nearest is {wide}x{high}."
            )
        most = _RELEASES[model].transformer["num_layers"]
        if setting.config["num_layers"] > most:
            raise SightlineError(f"layers is {layers}: expected at most {most} at {model}.")
        return setting

    @property
    def config(self) -> dict[str, Any]:
        tiny = _TINY_SANA_WM if self.model == "sana-wm" else _TINY
        config = {**_RELEASES[self.model].transformer, **(tiny if self.tiny else {})}
        return config | ({"num_layers": self.layers} if self.layers else {})

    @property
    def stride(self) -> TokenStride:
        """The frames and pixels that a token covers."""
        return _RELEASES[self.model].stride

    @property
    def grid(self) -> TokenGrid:
        return TokenGrid.from_video(self.num_frames, self.width, self.height, self.stride)

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32 if self.tiny else torch.bfloat16

    @property
    def backend(self) -> str | None:
        """The compiler's backend: torch's default, or for a tiny model one that does not take minutes."""
        return "aot_eager" if self.tiny else None

    @property
    def tokens(self) -> int:
        return self.grid.num_tokens


def encoding(method: str, setting: Setting) -> Encoding | None:
    """The encoding of this name, with its default settings, as the paper compares them, where the name gives no others, as in
    "prope?whole_heads=true"; None for the stock model."""
    if method == "stock":
        return None
    name, settings = parse_query("the method", method)
    config: dict[str, Any] = {"name": name, **{key: parse_scalar(value) for key, value in settings.items()}}
    if name == "cameractrl":  # whose encoder sees pixels
        config.setdefault("pixels", setting.stride.width)
    return encoding_from_config(config)


def random_base(setting: Setting, device: torch.device) -> WanTransformer3DModel:
    """The stock model with random weights, in the setting's dtype except for what from_pretrained keeps in float32."""
    with torch.device("meta"):
        model = cast_as_loaded(WanTransformer3DModel(**setting.config), setting.dtype)
    model.to_empty(device=device)
    model.rope = _rope(setting).to(device)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".norm" in name and name.endswith("weight"):
                parameter.fill_(1.0)
            else:
                parameter.normal_(0, 0.02)
    return model.eval()


def cast_as_loaded(model: Any, dtype: torch.dtype) -> Any:
    """Give a model, in place, the dtypes of `from_pretrained(torch_dtype=dtype)`; some parts and all buffers stay in float32."""
    kept = set(model._keep_in_fp32_modules)
    for name, parameter in model.named_parameters():
        if not kept & set(name.split(".")):
            parameter.data = parameter.data.to(dtype)
    return model


def variant(base: WanTransformer3DModel, method: str, mode: Mode, setting: Setting) -> Any:
    """A model that shares the base's tensors, with this method's encoding, compiled, fused and in FP8 as the mode says."""
    settings = encoding(method, setting)
    if settings is None:
        with torch.device("meta"):
            model: Any = WanTransformer3DModel(**setting.config)
        model.load_state_dict(base.state_dict(), assign=True)
        model.rope = base.rope
    else:
        model = CameraWanTransformer3DModel.from_transformer(base, settings, copy=False)
    if "fused" in mode:
        accelerate(model)
    if "fp8" in mode:
        to_fp8(model.blocks, base.device)
    if "compiled" in mode:
        model.compile_repeated_blocks(fullgraph=True, **({"backend": setting.backend} if setting.backend else {}))
    return model


def call_arguments(model: Any, setting: Setting, device: torch.device, dtype: torch.dtype) -> dict[str, Any]:
    """The inputs of one clip, as a pipeline gives them: at 5B every token has a timestep, which is 0 in the given first frame."""
    grid = setting.grid
    config, generator = model.config, torch.Generator(device).manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, device=device, dtype=dtype)

    latent_shape = (size * patch for size, patch in zip(grid, config.patch_size, strict=True))
    timestep = torch.full((1,), 897.0, device=device)
    if _WAN_RELEASES[setting.model].pipeline["expand_timesteps"]:
        timestep = timestep.repeat(1, setting.tokens)
        timestep[:, : grid.tokens_per_frame] = 0
    arguments: dict[str, Any] = {
        "hidden_states": normal(1, config.in_channels, *latent_shape),
        "timestep": timestep,
        "encoder_hidden_states": normal(1, TEXT_TOKENS, config.text_dim),
        "return_dict": False,
    }
    if isinstance(model, CameraWanTransformer3DModel):
        arguments["attention_kwargs"] = {"camera": camera_tokens(setting).to(device)}
    return arguments


def camera_tokens(setting: Setting) -> CameraTokens:
    trajectory = moves.orbit(30, frames=setting.num_frames, width=setting.width, height=setting.height)
    return CameraTokens.from_trajectory(trajectory, setting.grid)


def _rope(setting: Setting) -> torch.nn.Module:
    """The rotary tables, from a very small model: to_empty leaves buffers uninitialized."""
    return WanTransformer3DModel(**(setting.config | {"num_layers": 1, "num_attention_heads": 1, "ffn_dim": 8})).rope
