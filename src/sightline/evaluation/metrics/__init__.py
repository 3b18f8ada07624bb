"""Image and video metrics. Each is named after the network that computes it; `suite` runs those a protocol asks for."""
