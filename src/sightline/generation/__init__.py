"""From an image, a prompt and a path to a video: pipelines and the one-call API."""
