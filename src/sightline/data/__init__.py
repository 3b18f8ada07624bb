"""Video with cameras: four published sources and the procedural worlds behind one `Clip`, and their cached latents."""
