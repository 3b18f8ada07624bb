"""Evaluation: did the video go where it was told? Pose errors and estimators, metrics, protocols, reports."""
