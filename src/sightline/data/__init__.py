"""Video with cameras: four public datasets and the procedural worlds behind one Source protocol, clips, and cached latents."""
