"""Training: recipes, the trainer and checkpoints, for pretraining and for adding a camera to a pretrained model."""
