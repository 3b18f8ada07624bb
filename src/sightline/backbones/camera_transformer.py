"""CameraTransformer: what every backbone shares, and the protocol by which one is added.

    class CameraWanTransformer3DModel(CameraTransformer, WanTransformer3DModel): ...

A backbone is a transformer of diffusers that is not forked. Its class here says three things:

- where the tokens are: `blocks_name`, the list of blocks whose `attn1` is the self-attention of the video tokens, and the
  token grid that its `forward` computes from its inputs;
- where query and key are after RoPE: the attention processor that `install` sets, a `CameraAttnProcessor`;
- how the camera reaches each block: `install` makes `self.rope` return the camera rows beside the RoPE tables. This is the one
  argument that reaches every self-attention layer through gradient checkpointing, compilation, sharding, context parallelism and
  offloading. The module `embedding_name`, which makes the tokens, adds what an encoding's `embed` computed.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from diffusers.models._modeling_parallel import ContextParallelInput
from diffusers.models.modeling_outputs import Transformer2DModelOutput
from torch import Tensor, nn

from sightline.backbones.checked_loading import ENCODING_KEY, CheckedLoading
from sightline.backbones.plain_model import require_plain
from sightline.cameras.token_grid import TokenGrid
from sightline.cameras.tokens import CameraTokens
from sightline.encodings import Encoding, encoding_from_config
from sightline.encodings.protocol import STAGES, EncodingLayer
from sightline.errors import SightlineError


class CameraTransformer(CheckedLoading):
    """A transformer of diffusers whose self-attention layers hold a camera encoding, named in the config as `encoding`.

    `forward` takes `attention_kwargs={"camera": CameraTokens}`; without it the output equals the base model's, bit for bit.
    With "camera_guidance_scale": w beside it, a second pass runs with absent cameras, and the output is
    without + w * (with - without).

    base: diffusers' class, from which the backbone derives too.
    blocks_name, embedding_name: the attributes that hold the blocks, and the module that makes tokens of latents.
    stages: the stages of an encoding that the backbone's processor calls; encodings with others are refused.
    """

    base: ClassVar[Any]
    blocks_name: ClassVar[str] = "blocks"
    embedding_name: ClassVar[str] = "patch_embedding"
    stages: ClassVar[frozenset[str]] = frozenset(STAGES)
    output_class: ClassVar[type] = Transformer2DModelOutput  # of the base's forward

    def install(self) -> None:
        """Make `self.rope` carry the camera rows (`RopeWithCamera`) and the embedding add tokens (`EmbeddingWithCamera`), and set
        the processors of all layers that receive what `self.rope` returns."""
        raise NotImplementedError

    @staticmethod
    def compute_buffers(model: Any) -> None:
        """Fill the buffers that no file has, in a model of this class, or of its base, that was made on the meta device."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "base" not in vars(cls):
            return
        cls._keep_in_fp32_modules = [*(cls.base._keep_in_fp32_modules or []), "camera_encoding"]
        cls._skip_layerwise_casting_patterns = [*(cls.base._skip_layerwise_casting_patterns or []), "camera_encoding"]
        if (plan := getattr(cls.base, "_cp_plan", None)) is not None:
            rows = ContextParallelInput(split_dim=1, expected_dims=3, split_output=True)
            cls._cp_plan = {**plan, "rope": {**plan["rope"], 2: rows}}

        def __init__(self: Any, **config: Any) -> None:
            CameraTransformer.__init__(self, **config)

        # diffusers reads a model's config keys from this signature. It has the base's keys and two more, so that a key which a
        # later diffusers adds is kept.
        own = inspect.signature(CameraTransformer.__init__).parameters
        __init__.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [*inspect.signature(cls.base.__init__).parameters.values(), own["encoding"], own["component"]]
        )
        cls.__init__ = __init__  # type: ignore[method-assign]

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
        self.install()
        first = self.camera_blocks[0].attn1
        layers = settings.layers(first.inner_dim, first.heads, len(self.camera_blocks))
        if unserved := sorted(frozenset().union(*(layer.stages for layer in layers)) - self.stages):
            raise SightlineError(
                f"encoding is {settings.name!r}, which changes the stage {unserved[0]!r} of a layer: expected one that changes "
                f"only {', '.join(stage for stage in STAGES if stage in self.stages)} for a {self.base.__name__}."
            )
        for block, layer in zip(self.camera_blocks, layers, strict=True):
            block.attn1.camera_encoding = layer

    @property
    def camera_blocks(self) -> Any:
        """The blocks whose self-attention takes the camera, in order."""
        return getattr(self, self.blocks_name)

    @property
    def encoding(self) -> Encoding:
        """The settings of this model's camera encoding."""
        return encoding_from_config(dict(self.config.encoding))

    @property
    def encoding_layers(self) -> list[EncodingLayer]:
        """The encoding's module in each self-attention layer, in order."""
        return [block.attn1.camera_encoding for block in self.camera_blocks]

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
    def from_transformer(cls, base: Any, encoding: Encoding, *, component: str | None = None, copy: bool = True) -> Any:
        """Add a camera encoding to a pretrained model. The new parameters are float32, on the base's device; on the CPU for a
        base on the meta device, since no file has them.

        component: "transformer" or "transformer_2"; saved, so that the weights of two experts cannot be mixed up later.
        copy: False shares the base's tensors instead of copying them. That needs half the memory; training changes both.
        """
        cls.require_stock_base(base)
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
                f"base does not fit {cls.__name__} (missing {missing[:3]}, unexpected {unexpected[:3]}): "
                f"expected the parameters of a stock {cls.base.__name__}."
            )
        for name, buffer in base.rope.named_buffers():
            model.rope.register_buffer(name, buffer.clone(), persistent=False)
        for block, old in zip(model.camera_blocks, getattr(base, cls.blocks_name), strict=True):
            device = old.attn1.to_q.weight.device
            block.attn1.camera_encoding.to_empty(device="cpu" if device.type == "meta" else device)
            block.attn1.camera_encoding.reset_parameters()
        for parameter, old in zip(_base_parameters(model), base.parameters(), strict=True):
            parameter.requires_grad_(old.requires_grad)
        if getattr(base, "gradient_checkpointing", False):
            model.enable_gradient_checkpointing()
        return model.train(base.training)

    @classmethod
    def require_stock_base(cls, base: Any) -> None:
        """Refuse a model that from_transformer cannot add a camera to."""
        if not isinstance(base, cls.base):
            raise SightlineError(f"base is a {type(base).__name__}: expected a diffusers {cls.base.__name__}.")
        if isinstance(base, CameraTransformer):
            raise SightlineError(
                f"base already carries the encoding {base.config.encoding['name']!r}: expected a stock model."
            )
        if getattr(getattr(base, cls.blocks_name)[0].attn1, "fused_projections", False):
            raise SightlineError(
                "base has fused QKV projections: call base.unfuse_qkv_projections() first, and fuse afterwards."
            )
        require_plain(base)
        if getattr(base, "peft_config", None):
            raise SightlineError(
                "base carries LoRA adapters: fuse or unload them first, and add adapters to the retrofit."
            )

    def forward_with_camera(
        self,
        grid: Any,  # the token grid of the video, as `camera_rows` and `run` take it
        batched: dict[str, Tensor | None],  # arguments of the base's forward whose first dimension is the batch
        others: dict[str, Any],  # its other arguments
        attention_kwargs: dict[str, Any],
        return_dict: bool,
    ) -> Any:
        """The base's forward with the camera of attention_kwargs, guided where it asks for that."""
        lora = dict(attention_kwargs)
        camera_tokens, scale = lora.pop("camera", None), lora.pop("camera_guidance_scale", 1.0)
        if unknown := set(lora) - {"scale"}:  # diffusers would ignore it, and a misspelt "camera" would go unnoticed
            raise SightlineError(
                f"attention_kwargs has {sorted(unknown)[0]!r}: expected 'camera', 'camera_guidance_scale', and 'scale' for LoRA."
            )
        first: Any = batched["hidden_states"]
        camera_rows = None
        if camera_tokens is not None:
            camera_rows = self.camera_rows(camera_tokens, grid, len(first)).to(first.device)
        others = {**others, "attention_kwargs": lora}
        if camera_rows is None or scale == 1.0:
            return self.run(camera_rows, grid, **batched, **others, return_dict=return_dict)
        # Both passes as one batch, so that offloaded weights are moved once and a cache sees one call per step.
        camera_rows = camera_rows.expand(len(first), -1, -1)
        camera_rows = torch.cat([camera_rows, torch.zeros_like(camera_rows)])  # [2 B, N, 90], the second half absent
        doubled = {name: None if value is None else torch.cat([value, value]) for name, value in batched.items()}
        outputs = self.run(camera_rows, grid, **doubled, **others, return_dict=False)
        halves = (output.chunk(2) for output in outputs)
        # without + scale * (with_camera - without)
        guided = tuple(torch.lerp(without, with_camera, scale) for with_camera, without in halves)
        return self.output_class(*guided) if return_dict else guided

    def run(self, camera_rows: Tensor | None, grid: TokenGrid, **inputs: Any) -> Any:
        """The base's forward while these camera rows, [B or 1, N, 90] or None, are in the modules that pass them on."""
        embedding = getattr(self, self.embedding_name)
        try:
            if camera_rows is not None:
                first: EncodingLayer = self.camera_blocks[0].attn1.camera_encoding
                if "embed" in first.stages:
                    embedding.tokens, camera_rows = first("embed", camera_rows, grid)
                self.rope.camera_rows = camera_rows
            return super().forward(**inputs)
        finally:
            self.rope.camera_rows = embedding.tokens = None

    def camera_rows(self, tokens: CameraTokens, grid: TokenGrid, batch: int) -> Tensor:  # -> [B or 1, N, 90]
        """The rows of the tokens, once they are known to fit the grid and the batch of the latents."""
        if not isinstance(tokens, CameraTokens):
            raise SightlineError(
                f"camera is a {type(tokens).__name__}: expected CameraTokens (CameraTokens.from_trajectory)."
            )
        if tokens.grid != grid:
            raise SightlineError(
                f"camera tokens lie on the grid {tuple(tokens.grid)}: expected {tuple(grid)}, that of the latents."
            )
        if len(tokens.rows) not in (1, batch):
            raise SightlineError(f"camera tokens have batch {len(tokens.rows)}: expected 1 or the latents' {batch}.")
        return tokens.rows


def _base_parameters(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for name, parameter in model.named_parameters() if ENCODING_KEY not in name]
