"""The families of video models that run here: which classes of diffusers belong together, and how their pipelines are called.

Classes are named, not imported: these facts are read with a model's configuration files, before anything large is loaded.
`models.py` has the classes themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sightline.backbones.wan_configs import Defaults
from sightline.cameras.token_grid import TokenStride
from sightline.checks import shown, whole_number
from sightline.errors import SightlineError


@dataclass(frozen=True)
class Family:
    """One family of models.

    transformer, vae, text_pipeline, image_pipeline: classes of diffusers by name; the pipelines take no first frame, and one.
    does_both: whether every model of the family generates with a first frame and without; otherwise its input channels, or the
        flag expand_timesteps of its pipeline, tell what it does.
    defaults: the video the family is made for, and how it is sampled; None where the release tells (wan_configs).
    latent_channels: the key of the VAE's configuration that has their number.
    max_sequence_length: text tokens that the pipelines pad prompts to.
    frame_rate: the option of the pipelines that takes the frames per second, where they have one.
    window: the most frames that the pipelines generate at once; they make a longer video window by window. None: any number.
    float32_vae: whether the pipelines run a VAE in float32 beside transformers in another dtype.
    text_encoder: a class of transformers by name.
    image_as_video: whether a first frame is passed as the start of a video whose other frames are masked.
    own_camera: whether the model has a camera of its own, which its pipeline takes; it needs a first frame too.
    """

    transformer: str
    vae: str
    text_pipeline: str
    image_pipeline: str
    does_both: bool
    defaults: Defaults | None
    latent_channels: str = "z_dim"
    max_sequence_length: int = 512
    frame_rate: str | None = None
    window: int | None = None
    float32_vae: bool = True
    text_encoder: str = "UMT5EncoderModel"
    image_as_video: bool = False
    own_camera: bool = False

    @property
    def pipelines(self) -> tuple[str, str]:
        return self.text_pipeline, self.image_pipeline

    def takes(self, pipeline: Mapping[str, Any], transformer: Mapping[str, Any], vae: Mapping[str, Any]) -> set[str]:
        """What a model of these configurations generates from: "image", "text" (without a first frame), or both."""
        if self.own_camera:
            return {"image"}
        if self.does_both:
            return {"image", "text"}
        image_channels = transformer["in_channels"] > vae[self.latent_channels]
        if pipeline.get("expand_timesteps"):  # TI2V-5B
            return {"image"} if image_channels else {"image", "text"}
        return {"image"} if image_channels else {"text"}


WAN = Family(
    "WanTransformer3DModel",
    "AutoencoderKLWan",
    "WanPipeline",
    "WanImageToVideoPipeline",
    does_both=False,
    defaults=None,
)
VACE = Family(
    "WanVACETransformer3DModel", "AutoencoderKLWan", "WanVACEPipeline", "WanVACEPipeline", does_both=True,
    defaults=Defaults(num_frames=81, width=832, height=480, num_inference_steps=50, guidance_scale=5.0),
    image_as_video=True,
)  # fmt: skip
SKYREELS_V2 = Family(
    "SkyReelsV2Transformer3DModel", "AutoencoderKLWan", "SkyReelsV2Pipeline", "SkyReelsV2ImageToVideoPipeline",
    does_both=False,
    defaults=Defaults(num_frames=97, width=960, height=544, num_inference_steps=50, guidance_scale=6.0),
)  # fmt: skip
SKYREELS_V2_DF = replace(  # diffusion forcing
    SKYREELS_V2,
    text_pipeline="SkyReelsV2DiffusionForcingPipeline",
    image_pipeline="SkyReelsV2DiffusionForcingImageToVideoPipeline",
    does_both=True,
    frame_rate="fps",
    window=97,
)
LTX2 = Family(
    "LTX2VideoTransformer3DModel", "AutoencoderKLLTX2Video", "LTX2Pipeline", "LTX2ImageToVideoPipeline", does_both=True,
    defaults=Defaults(num_frames=121, width=768, height=512, num_inference_steps=30, guidance_scale=3.0),
    latent_channels="latent_channels",
    max_sequence_length=1024,
    frame_rate="frame_rate",
    float32_vae=False,
    text_encoder="Gemma3ForConditionalGeneration",
)  # fmt: skip
SANA_WM = Family(
    "SanaWMTransformer3DModel", "AutoencoderKLLTX2Video", "SanaWMPipeline", "SanaWMPipeline", does_both=False,
    defaults=Defaults(num_frames=161, width=1280, height=704, num_inference_steps=60, guidance_scale=5.0),
    latent_channels="latent_channels",
    max_sequence_length=300,
    float32_vae=False,
    text_encoder="Gemma2Model",
    own_camera=True,
)  # fmt: skip
FAMILIES = (WAN, VACE, SKYREELS_V2, SKYREELS_V2_DF, LTX2, SANA_WM)
PIPELINES = tuple(dict.fromkeys(name for family in FAMILIES for name in family.pipelines))


def family_named(pipeline: object) -> Family | None:
    """The family of a pipeline of diffusers by the name of its class."""
    return next((family for family in FAMILIES if pipeline in family.pipelines), None)


def family_of(pipe: Any) -> Family:
    """The family of a pipeline that is loaded; others are refused."""
    for parent in type(pipe).__mro__:  # the pipeline of a released camera model derives from a stock one
        if (family := family_named(parent.__name__)) is not None:
            return family
    raise SightlineError(
        f"pipe is a {type(pipe).__name__}: expected one of {', '.join(PIPELINES)} (see load_pipeline)."
    )


def require_family(model: object, pipeline: object) -> Family:
    """The family of a saved model by the class of its pipeline; others are refused."""
    family = family_named(pipeline)
    if family is None:
        raise SightlineError(f"model {str(model)!r} is a {shown(pipeline)}: expected one of {', '.join(PIPELINES)}.")
    return family


def family_of_config(pipeline: Mapping[str, Any]) -> Family:
    """The family of a pipeline by its configuration; Wan where that names no class."""
    return require_family("of this configuration", pipeline.get("_class_name", WAN.text_pipeline))


def require_no_camera(model: object, camera: object, family: Family) -> None:
    """Refuse camera weights and encodings beside a model that has a camera of its own."""
    if camera is not None and family.own_camera:
        raise SightlineError(
            f"camera is {str(camera)!r}, but model {str(model)!r} is a {family.image_pipeline}, which has a camera of its own: "
            "expected none."
        )


def patch_size(transformer: Mapping[str, Any]) -> tuple[int, int, int]:
    """Latent frames, rows and columns of a token, by the configuration of a transformer."""
    size = transformer["patch_size"]
    if isinstance(size, int):  # LTX-2
        size = (transformer["patch_size_t"], size, size)
    frames, rows, columns = (whole_number("patch_size", one) for one in size)
    return frames, rows, columns


def token_stride(vae: Mapping[str, Any], transformer: Mapping[str, Any]) -> TokenStride:
    """The frames and pixels that a token covers, by the configurations of VAE and transformer."""
    patch = patch_size(transformer)
    if "vae_scale_factors" in transformer:  # LTX-2
        factors = (whole_number("vae_scale_factors", factor) for factor in transformer["vae_scale_factors"])
        return TokenStride(*(factor * size for factor, size in zip(factors, patch, strict=True)))
    if "spatio_temporal_scaling" in vae:  # SANA-WM has the VAE of LTX-2
        frames = _compression(vae, "temporal_compression_ratio", "patch_size_t")
        pixels = _compression(vae, "spatial_compression_ratio", "patch_size")
        return TokenStride(frames * patch[0], pixels * patch[1], pixels * patch[2])
    return TokenStride.from_vae(vae, patch)


def _compression(vae: Mapping[str, Any], name: str, patch: str) -> int:
    """As the configuration of LTX-2's VAE states it, or as diffusers computes it from the scaling blocks."""
    if vae.get(name) is not None:
        return whole_number(name, vae[name])
    return whole_number(patch, vae[patch]) * 2 ** sum(map(bool, vae["spatio_temporal_scaling"]))
