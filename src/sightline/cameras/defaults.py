"""Video size, lens and frame rate where neither a file nor the caller names them: Wan's 81 frames of 832x480."""

NUM_FRAMES = 81
WIDTH, HEIGHT = 832, 480
FOCAL_MM = 28.0  # on a sensor 36 mm wide
FPS = 16.0
