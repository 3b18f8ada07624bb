"""WHERE the camera is: poses, lenses, lines, trajectories, and their files. Pure tensors, no network, no globals."""
