"""Does a generated video follow its trajectory? Pose errors, pose estimators, metrics and protocols. See docs/evaluation.md."""

from sightline.evaluation.pose_errors import PoseErrors, pose_errors
from sightline.evaluation.slam_errors import relative_pose_errors, umeyama_ate

__all__ = ["PoseErrors", "pose_errors", "relative_pose_errors", "umeyama_ate"]
