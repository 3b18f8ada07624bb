"""WHICH network: stock diffusers models that take a camera."""
