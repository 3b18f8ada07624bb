"""Video diffusion transformers with a camera: Wan in diffusers, model loading, camera weights, kernels and inspection."""
