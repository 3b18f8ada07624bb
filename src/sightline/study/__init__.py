"""Studies: rows x seeds of trainings that differ in one thing, measured alike."""
