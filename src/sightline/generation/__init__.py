"""Generating videos: `sl.generate`, and the jobs of `sightline generate` from planning to the folder they write."""
