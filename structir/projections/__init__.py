"""Index spaces: what an op computes at one point, and which elements of its operands the point
reads."""
