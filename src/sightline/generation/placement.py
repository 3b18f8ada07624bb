"""How a loaded pipeline runs on this machine: its kernels, its attention backend, and where its weights are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sightline.generation.model_options import ModelOptions

if TYPE_CHECKING:
    import torch

    from sightline.backbones.stock import AnyPipeline


def place_pipeline(
    pipe: AnyPipeline, models: list[Any], options: ModelOptions, device: torch.device, processes: int, num_videos: int
) -> None:
    """Turn on what the options ask for, and put the weights where they belong. models: the transformers of the pipeline.

    processes: that share each video. num_videos: that will be generated; compilation saves time if there are many.
    """
    from diffusers import attention_backend

    if options.tiled_decode:
        pipe.vae.enable_tiling()
    if options.speed != "exact":
        from sightline.backbones.speed import turn_on

        turn_on(pipe, options.speed, num_videos, device)  # before whatever wraps a module
    for model in models:
        if options.attention is not None:
            # diffusers also makes it the backend of every other model in the process; this context undoes that.
            with attention_backend():
                model.set_attention_backend(options.attention)
        if options.context_parallel != "none":
            from diffusers import ContextParallelConfig

            # "anything": token counts and heads need not be multiples of the number of processes.
            config = ContextParallelConfig(ulysses_degree=processes, ulysses_anything=True)
            model.enable_parallelism(config=config)
    if options.offload == "model":
        pipe.enable_model_cpu_offload(device=device)
    elif options.offload == "sequential":
        pipe.enable_sequential_cpu_offload(device=device)
    elif options.offload == "group":
        from sightline.generation.offload import offload_groups

        offload_groups(pipe, device)
