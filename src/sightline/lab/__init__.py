"""The lab model: Wan2.2 at a size that trains in minutes, how its parts are trained, and what it is measured on."""
