"""Picture and video metrics. Each is named for the network that makes it; `suite` runs those a protocol asks for."""
