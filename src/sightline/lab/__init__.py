"""The lab: Wan2.2's own classes at sizes anybody can run."""
