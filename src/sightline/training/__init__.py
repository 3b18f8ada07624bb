"""Training: recipe, trainer, checkpoints. One trainer for pretraining and for retrofits, at any size."""
