"""CameraWanTransformer3DModel: diffusers' Wan transformer with a camera encoding, which the stock pipelines run.

    model = CameraWanTransformer3DModel.from_transformer(base, Scope())
    pipe(..., attention_kwargs={"camera": tokens})

The camera is passed as a third element of `rotary_emb`: the one argument that reaches every self-attention layer through
gradient checkpointing, compilation, sharding, context parallelism and offloading, so that the model need not be forked.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from diffusers import WanTransformer3DModel
from diffusers.models._modeling_parallel import ContextParallelInput
from diffusers.models.modeling_outputs import Transformer2DModelOutput

# ModelMixin must be in this namespace: a saved pipeline looks for it in the module that defines the class.
from diffusers.models.modeling_utils import ModelMixin  # noqa: F401
from torch import Tensor, nn

from sightline.backbones.attention import CameraPatchEmbedding, CameraRotaryPosEmbed, CameraWanAttnProcessor
from sightline.backbones.stock import SAFETENSORS
from sightline.cameras.token_grid import TokenGrid
from sightline.cameras.tokens import CameraTokens
from sightline.documents import read_json
from sightline.encodings import Encoding, encoding_from_config
from sightline.encodings.protocol import EncodingLayer, promote_scalars
from sightline.errors import LoadError, SightlineError
from sightline.files import reason
from sightline.tensors import open_tensors, read_tensors

ENCODING_KEY = ".attn1.camera_encoding."  # part of the name of every camera parameter and of no other
IMAGE_CONDITION = (
    "image_condition"  # in attention_kwargs: channels beside the latents, [B, C, t, H, W] (FunCameraPipeline)
)


class CameraWanTransformer3DModel(WanTransformer3DModel):
    """WanTransformer3DModel whose self-attention layers hold a camera encoding, named in the config as `encoding`.

    `forward` takes `attention_kwargs={"camera": CameraTokens}`; without it the output equals the base model's, bit for bit.
    With "camera_guidance_scale": w beside it, a second pass runs with absent cameras, and the output is
    without + w * (with - without).
    """

    _keep_in_fp32_modules = [*WanTransformer3DModel._keep_in_fp32_modules, "camera_encoding"]  # noqa: RUF012
    _skip_layerwise_casting_patterns = [*WanTransformer3DModel._skip_layerwise_casting_patterns, "camera_encoding"]  # noqa: RUF012
    _cp_plan = {  # noqa: RUF012
        **WanTransformer3DModel._cp_plan,
        "rope": {
            **WanTransformer3DModel._cp_plan["rope"],
            2: ContextParallelInput(split_dim=1, expected_dims=3, split_output=True),
        },
    }

    def __init__(
        self, *, encoding: dict[str, Any] | None = None, component: str | None = None, **base_config: Any
    ) -> None:
        """encoding: the settings of the camera encoding. component: the pipeline component it was trained as, if known."""
        super().__init__(**base_config)
        if encoding is None:
            raise SightlineError(
                "encoding is missing: expected settings such as {'name': 'scope'}, or use from_transformer."
            )
        settings = encoding_from_config(encoding)
        self.register_to_config(encoding=settings.to_config(), component=component)
        config = self.config
        self.rope = CameraRotaryPosEmbed(config.attention_head_dim, config.patch_size, config.rope_max_seq_len)
        first, patch = self.blocks[0].attn1, tuple(config.patch_size)
        self.patch_embedding = CameraPatchEmbedding(config.in_channels, first.inner_dim, patch, patch)
        layers = settings.layers(first.inner_dim, first.heads, len(self.blocks))
        for block, layer in zip(self.blocks, layers, strict=True):
            block.attn1.camera_encoding = layer
            block.attn1.set_processor(CameraWanAttnProcessor())

    @property
    def encoding(self) -> Encoding:
        """The settings of this model's camera encoding."""
        return encoding_from_config(dict(self.config.encoding))

    @property
    def encoding_layers(self) -> list[EncodingLayer]:
        """The encoding's module in each self-attention layer, in order."""
        return [block.attn1.camera_encoding for block in self.blocks]

    def camera_parameters(self) -> Iterator[nn.Parameter]:
        """The parameters that the base model does not have."""
        return (parameter for layer in self.encoding_layers for parameter in layer.parameters())

    def add_adapter(self, *args: Any, **options: Any) -> None:
        """As in diffusers, which freezes everything but the new adapter, except that camera parameters stay trainable."""
        trainable = [parameter for parameter in self.camera_parameters() if parameter.requires_grad]
        super().add_adapter(*args, **options)
        for parameter in trainable:
            parameter.requires_grad_(True)

    @classmethod
    def from_transformer(
        cls, base: WanTransformer3DModel, encoding: Encoding, *, component: str | None = None, copy: bool = True
    ) -> CameraWanTransformer3DModel:
        """Add a camera encoding to a pretrained model. The new parameters are float32, on the base's device; on the CPU for a
        base on the meta device, since no file has them.

        component: "transformer" or "transformer_2"; saved, so that the weights of two experts cannot be mixed up later.
        copy: False shares the base's tensors instead of copying them. That needs half the memory; training changes both.
        """
        _require_stock_base(base)
        if not isinstance(encoding, Encoding):
            raise SightlineError(f"encoding is {encoding!r}: expected an encoding's settings such as Scope().")
        with torch.device("meta"):
            model = cls.from_config({**base.config, "encoding": encoding.to_config(), "component": component})
        state = base.state_dict()
        if copy:
            state = {name: tensor.clone() for name, tensor in state.items()}
        missing, unexpected = model.load_state_dict(state, strict=False, assign=True)
        missing = [name for name in missing if ENCODING_KEY not in name]
        if missing or unexpected:
            raise SightlineError(
                f"base does not fit CameraWanTransformer3DModel (missing {missing[:3]}, unexpected {unexpected[:3]}): "
                "expected the parameters of a stock WanTransformer3DModel."
            )
        for name, buffer in base.rope.named_buffers():
            model.rope.register_buffer(name, buffer.clone(), persistent=False)
        for block, old in zip(model.blocks, base.blocks, strict=True):
            device = old.attn1.to_q.weight.device
            block.attn1.camera_encoding.to_empty(device="cpu" if device.type == "meta" else device)
            block.attn1.camera_encoding.reset_parameters()
        for parameter, old in zip(_base_parameters(model), base.parameters(), strict=True):
            parameter.requires_grad_(old.requires_grad)
        return model.train(base.training)

    @classmethod
    def from_pretrained(cls, path: Any, **options: Any) -> Any:
        """As in diffusers, except that missing or unknown weights are refused rather than ignored."""
        wants_info = options.pop("output_loading_info", False)
        folder = Path(path) / (options.get("subfolder") or "")
        if folder.is_dir():  # a damaged configuration would send diffusers to the hub
            read_json(folder / "config.json", "that of a camera model saved by save_pretrained")
        try:
            model, info = super().from_pretrained(path, output_loading_info=True, **{**options, **SAFETENSORS})
        except (SightlineError, torch.OutOfMemoryError):
            raise
        except (
            Exception
        ) as error:  # another shape, a file cut short, no such folder or variant, a configuration that is none
            kind = LoadError if isinstance(error, OSError) else SightlineError
            raise kind(
                f"the model in {path} cannot be loaded ({reason(error)}): expected a camera model saved by save_pretrained."
            ) from None
        for problem, names in (("lack", info["missing_keys"]), ("hold the unknown", info["unexpected_keys"])):
            if names:
                raise SightlineError(
                    f"the weights in {path} {problem} {sorted(names)[0]} ({len(names)} such): expected every parameter "
                    f"of the encoding {model.config.encoding['name']!r} and of its backbone."
                )
        for name, parameter in model.named_parameters():
            if ENCODING_KEY in name and not parameter.isfinite().all():
                raise SightlineError(
                    f"the weights in {path} hold values in {name} that are not finite: expected numbers."
                )
        return (model, info) if wants_info else model

    @classmethod
    def _load_pretrained_model(cls, model: Any, state_dict: Any, files: list[Any], *args: Any, **options: Any) -> Any:
        # A step of diffusers' from_pretrained, which accepts state dicts in place of file names. diffusers compares shapes
        # before it fills the model, so scalar alphas must be promoted here.
        if state_dict is not None:
            promote_scalars(state_dict)
        else:
            files = [_promote_scalars_of(file) for file in files]
        return super()._load_pretrained_model(model, state_dict, files, *args, **options)

    def forward(
        self,
        hidden_states: Tensor,  # [B, C, t, H, W] latents
        timestep: Tensor,
        encoder_hidden_states: Tensor,
        encoder_hidden_states_image: Tensor | None = None,
        return_dict: bool = True,
        attention_kwargs: dict[str, Any] | None = None,
    ) -> Any:
        others = dict(attention_kwargs or {})
        camera_tokens, scale = others.pop("camera", None), others.pop("camera_guidance_scale", 1.0)
        if (image_condition := others.pop(IMAGE_CONDITION, None)) is not None:
            hidden_states = torch.cat([hidden_states, image_condition.to(hidden_states)], dim=1)
        if unknown := set(others) - {"scale"}:  # diffusers would ignore it, and a misspelt "camera" would go unnoticed
            raise SightlineError(
                f"attention_kwargs has {sorted(unknown)[0]!r}: expected 'camera', 'camera_guidance_scale', and 'scale' for LoRA."
            )
        inputs = (hidden_states, timestep, encoder_hidden_states, encoder_hidden_states_image)
        camera_rows = None if camera_tokens is None else self._camera_rows(camera_tokens, hidden_states)
        if camera_rows is None or scale == 1.0:
            return self._forward_with(camera_rows, *inputs, return_dict=return_dict, attention_kwargs=others)
        # Both passes as one batch, so that offloaded weights are moved once and a cache sees one call per step.
        camera_rows = camera_rows.expand(len(hidden_states), -1, -1)
        camera_rows = torch.cat([camera_rows, torch.zeros_like(camera_rows)])  # [2 B, N, 90], the second half absent
        doubled = (None if tensor is None else torch.cat([tensor, tensor]) for tensor in inputs)
        output = self._forward_with(camera_rows, *doubled, return_dict=False, attention_kwargs=others)[0]
        with_camera, without = output.chunk(2)
        guided = torch.lerp(without, with_camera, scale)  # without + scale * (with_camera - without)
        return Transformer2DModelOutput(sample=guided) if return_dict else (guided,)

    def _forward_with(self, camera_rows: Tensor | None, *inputs: Any, **options: Any) -> Any:
        """The base's forward with these camera rows, [B or 1, N, 90] or None, in the modules that pass them on: beside the
        RoPE tables and, for an encoding with an embed stage, added to the tokens."""
        try:
            if camera_rows is not None:
                first: EncodingLayer = self.blocks[0].attn1.camera_encoding
                if "embed" in first.stages:
                    self.patch_embedding.tokens, camera_rows = first("embed", camera_rows, self._grid(inputs[0]))
                self.rope.camera_rows = camera_rows
            return super().forward(*inputs, **options)
        finally:
            self.rope.camera_rows = self.patch_embedding.tokens = None

    def _grid(self, hidden_states: Tensor) -> TokenGrid:
        return TokenGrid.from_latents(hidden_states.shape, self.config.patch_size)

    def _camera_rows(self, tokens: CameraTokens, hidden_states: Tensor) -> Tensor:  # -> [B or 1, N, 90]
        """The rows of the tokens, once they are known to fit the latents."""
        if not isinstance(tokens, CameraTokens):
            raise SightlineError(
                f"camera is a {type(tokens).__name__}: expected CameraTokens (CameraTokens.from_trajectory)."
            )
        latent, grid = tuple(hidden_states.shape[2:]), self._grid(hidden_states)
        if tokens.grid != grid:
            raise SightlineError(
                f"camera tokens lie on the grid {tuple(tokens.grid)}: expected {tuple(grid)}, that of latents {latent}."
            )
        batch = tokens.rows.shape[0]
        if batch not in (1, hidden_states.shape[0]):
            raise SightlineError(
                f"camera tokens have batch {batch}: expected 1 or the latents' {hidden_states.shape[0]}."
            )
        return tokens.rows.to(hidden_states.device)


# diffusers reads a model's config keys from the signature of __init__. Ours has the base's keys and two more, so that a key
# which a later diffusers adds is kept.
_own = inspect.signature(CameraWanTransformer3DModel.__init__).parameters
_base = inspect.signature(WanTransformer3DModel.__init__).parameters
CameraWanTransformer3DModel.__init__.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [*_base.values(), _own["encoding"], _own["component"]]
)


def _require_stock_base(base: WanTransformer3DModel) -> None:
    if not isinstance(base, WanTransformer3DModel):
        raise SightlineError(f"base is a {type(base).__name__}: expected a diffusers WanTransformer3DModel.")
    if isinstance(base, CameraWanTransformer3DModel):
        raise SightlineError(
            f"base already carries the encoding {base.config.encoding['name']!r}: expected a stock model."
        )
    if getattr(base.blocks[0].attn1, "fused_projections", False):
        raise SightlineError(
            "base has fused QKV projections: call base.unfuse_qkv_projections() first, and fuse afterwards."
        )
    if getattr(base, "peft_config", None):
        raise SightlineError("base carries LoRA adapters: fuse or unload them first, and add adapters to the retrofit.")


def _base_parameters(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for name, parameter in model.named_parameters() if ENCODING_KEY not in name]


def _promote_scalars_of(file: str) -> Any:
    """The file's name; or, if the file holds 0-dim tensors, its content with those reshaped to (1,)."""
    expected = "weights written by save_pretrained"
    with open_tensors(file, expected) as shard:
        if all(shard.get_slice(name).get_shape() for name in shard.keys()):  # noqa: SIM118  # not a dict
            return file
    return promote_scalars(read_tensors(file, expected)[1])
