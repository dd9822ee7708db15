"""User-facing tools: the command `structir`, and the generator of random programs."""
