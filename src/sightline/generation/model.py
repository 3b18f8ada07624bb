"""The model of a run: its ModelInfo, and the pipeline, which is loaded on first use."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.errors import SightlineError
from sightline.files import reason
from sightline.generation.model_options import ModelOptions
from sightline.generation.placement import place_pipeline

if TYPE_CHECKING:
    import torch

    from sightline.backbones.config_files import Configs
    from sightline.backbones.model_info import ModelInfo
    from sightline.backbones.stock import AnyPipeline
    from sightline.encodings import Encoding
    from sightline.generation.plan import Plan

_log = logging.getLogger("sightline")


def _default_device() -> torch.device:
    import torch

    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def model_info(name: str | None) -> ModelInfo:
    """What the configuration files of a model tell: a hub id, a folder, "lab", or None for the lab model with its camera."""
    return Model(ModelOptions(name)).info


@dataclass(eq=False)
class Model:
    """One model for all jobs of a run. device: the GPU by default, where there is one."""

    options: ModelOptions
    device: torch.device = field(default_factory=_default_device)
    processes: int = 1
    on_load: Callable[[AnyPipeline], None] = lambda pipe: None
    digests: dict[str, str] = field(default_factory=dict)  # of each component's weights, once they are loaded
    num_videos: int = 1  # that will be generated; compilation saves time if there are many
    encoding: Encoding | None = None  # added untrained instead of camera weights, to measure what it costs
    _fitting: set[tuple[int, int, int, bool]] = field(default_factory=set)  # videos that were found to fit into memory

    def __post_init__(self) -> None:
        if self.options.offload != "none" and self.device.type == "cpu":
            raise SightlineError(f"offload is {self.options.offload!r} but there is no GPU: expected none.")
        if self.options.context_parallel != "none" and self.processes == 1:
            raise SightlineError(
                "context_parallel is given to one process: expected torchrun --nproc-per-node N -m sightline generate ..."
            )
        if self.options.context_parallel != "none" and self.device.type == "cpu":
            raise SightlineError(
                f"context_parallel is {self.options.context_parallel!r} but there is no GPU: expected none."
            )
        camera = self.options.camera
        if camera is not None and not camera.exists():
            from sightline.backbones.hub_camera import is_hub_id

            if not is_hub_id(camera):
                raise SightlineError(
                    f"camera {camera} does not exist: expected camera weights, a file, a folder or a hub id."
                )

    @property
    def dtype(self) -> torch.dtype:
        import torch

        auto = "bfloat16" if self.device.type == "cuda" else "float32"
        return getattr(torch, auto if self.options.dtype == "auto" else self.options.dtype)

    @cached_property
    def camera(self) -> Path | None:
        """The camera weights on this machine; those of a hub id are downloaded."""
        from sightline.backbones.hub_camera import local_camera

        return None if self.options.camera is None else local_camera(self.options.camera)

    @cached_property
    def configs(self) -> Configs | None:
        """The configuration files, with those of a released camera model; a camera that does not fit them is refused. None for
        untrained models, which have none."""
        from sightline.backbones import shipped
        from sightline.backbones.config_files import read_configs
        from sightline.backbones.families import family_of_config, require_no_camera

        name = self.options.model
        if name is not None and name.startswith("tiny:"):
            return None
        configs = read_configs(str(shipped.base()) if name in (None, "lab") else str(name))
        require_no_camera(name, self.options.camera, family_of_config(configs[""]))
        if self.camera is None:  # importing diffusers takes seconds, which a preview of a path does not need
            return configs
        from sightline.backbones.attach import empty_transformers, require_fitting_camera
        from sightline.backbones.released import read_released

        release = read_released(self.camera)
        if release is None:
            require_fitting_camera(empty_transformers(configs), self.camera)
            return configs
        release.require_base(name or "lab", configs)
        return {**configs, **release.configs}

    @cached_property
    def files(self) -> dict[str, str]:
        """Digests of the files of the model and of its camera weights. They are known before anything is loaded."""
        from sightline.backbones import shipped
        from sightline.backbones.config_files import hub_revision
        from sightline.backbones.released_files import expert_places
        from sightline.backbones.weights_files import files_digest

        name, camera = self.options.model, self.camera
        digests = {}
        if name is None or not name.startswith("tiny:"):
            folder = shipped.base() if name in (None, "lab") else Path(str(name))
            digests["model"] = files_digest(folder) if folder.is_dir() else hub_revision(str(name))
        if camera is not None or name is None:
            camera = shipped.camera() if camera is None else camera
            places = list(expert_places(camera).values()) if camera.is_file() else []  # one of two files names both
            digests["camera"] = " ".join(files_digest(place) for place in places or [camera])
        return digests

    @cached_property
    def info(self) -> ModelInfo:
        """What is known of the model before its weights are loaded."""
        from sightline.backbones.model_info import ModelInfo

        if self.configs is None:
            return ModelInfo.of(self.pipe)
        info = ModelInfo.from_configs(self.configs)
        return replace(info, has_camera=True) if self.options.model is None else info

    def require_camera(self, instead: str = "") -> None:
        """Refuse a model that takes no camera. instead: another option to name in the message."""
        if not self.info.has_camera and self.options.camera is None:
            raise SightlineError(
                f"model {self.options.model!r} takes no camera: expected --camera WEIGHTS with it{instead}."
            )

    def require_memory(self, plan: Plan, camera_guidance: bool) -> None:
        """Refuse, before weights are loaded, what will not fit into memory."""
        trajectory = plan.trajectory
        self.require_memory_for(len(trajectory), trajectory.width, trajectory.height, camera_guidance)

    def require_memory_for(self, num_frames: int, width: int, height: int, camera_guidance: bool) -> None:
        """Refuse a video that will not fit into memory, before anything of its size is made."""
        from sightline.generation.memory import GIB, estimate, require_memory
        from sightline.memory import require_video_memory

        video = (num_frames, width, height)
        if self.options.ignore_memory or (*video, camera_guidance) in self._fitting:
            return
        require_video_memory(*video)
        if self.configs is not None and not self._is_usual_lab_video(*video):
            tiled = self.options.tiled_decode
            needed = estimate(
                self.configs,
                *video,
                self.dtype,
                camera_guidance=camera_guidance,
                tiled=tiled,
                **self.savings(self.options.offload),
            )
            if "pipe" in self.__dict__ and self.options.offload == "none":
                needed = replace(
                    needed, weights=dict.fromkeys(needed.weights, 0)
                )  # they are in memory already, and not in what is free
            line = require_memory(needed, self.options.offload, self.device, tiled)
            if needed.host("none") > GIB:  # small models need no note
                _log.info("%s", line)
        self._fitting.add((*video, camera_guidance))

    def savings(self, offload: str) -> dict[str, bool]:
        """What the speed level changes of the memory that a video needs with this offloading."""
        fast = self.options.speed != "exact"
        return {
            "joined": fast and offload in ("group", "sequential"),
            "bfloat16_vae": fast and self.device.type == "cuda",
        }

    def _is_usual_lab_video(self, num_frames: int, width: int, height: int) -> bool:
        """Whether the shipped model makes a video no larger than its own, for which a fraction of a GiB is enough."""
        own = self.info.defaults
        pixels, usual = num_frames * width * height, own.num_frames * own.width * own.height
        return self.options.model in (None, "lab") and pixels <= usual

    @cached_property
    def pipe(self) -> AnyPipeline:
        """The pipeline, loaded on first use and placed on its device."""
        import torch
        from safetensors import SafetensorError

        from sightline.backbones.pipelines import load_pipeline
        from sightline.backbones.stock import experts

        options = self.options
        place = "cpu" if options.offload != "none" else self.device
        try:
            pipe = load_pipeline(options.model, self.encoding or self.camera, dtype=self.dtype, device=place)
        except torch.OutOfMemoryError:
            raise SightlineError(
                "the model does not fit into the GPU's memory: expected --offload model or group."
            ) from None
        except (SafetensorError, RuntimeError, KeyError, TypeError) as error:  # files cut short, or of something else
            raise SightlineError(
                f"model {options.model!r} cannot be loaded ({reason(error)}): expected the files of a pipeline."
            ) from None
        self._note_digests(pipe)  # before offloading, after which some weights cannot be read
        try:
            place_pipeline(pipe, list(experts(pipe).values()), options, self.device, self.processes, self.num_videos)
        except (ValueError, RuntimeError, ImportError, NotImplementedError) as error:
            if isinstance(error, SightlineError):
                raise
            raise SightlineError(
                f"the model cannot be laid out as asked ({reason(error)}): expected other options."
            ) from None
        self.on_load(pipe)
        return pipe

    @classmethod
    def of(cls, pipe: AnyPipeline) -> Model:
        """The model of a pipeline that the caller has loaded and placed."""
        from sightline.backbones.speed import speed_of

        model = cls(ModelOptions(speed=speed_of(pipe)), device=pipe.device)
        model.__dict__["pipe"] = pipe
        model._note_digests(pipe)
        model.__dict__["configs"] = None  # it may be any model
        model.__dict__["files"] = dict(model.digests)
        return model

    def _note_digests(self, pipe: AnyPipeline) -> None:
        """Digests of the weights of each component, and of its camera parameters separately."""
        from torch.nn import ModuleList

        from sightline.backbones.stock import experts
        from sightline.backbones.weights_digest import weights_digest

        for name, part in {"text_encoder": pipe.text_encoder, "vae": pipe.vae, **experts(pipe)}.items():
            self.digests[name] = weights_digest(part)
            if hasattr(part, "encoding_layers"):
                self.digests[f"camera of {name}"] = weights_digest(ModuleList(part.encoding_layers))

    def settings(self) -> dict[str, Any]:
        """The model's part of a settings.json."""
        options = self.options
        return {
            "name": options.model or "the lab model",
            "camera": None if options.camera is None else str(options.camera),
            "weights": dict(self.digests),
            "dtype": str(self.dtype).removeprefix("torch."),
            "device": self.device.type,
            "offload": options.offload,
            "speed": options.speed,
            "attention": options.attention or "native",
            "tiled_decode": options.tiled_decode,
            "context_parallel": self.processes if options.context_parallel != "none" else 1,
        }
