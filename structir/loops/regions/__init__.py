"""Regions: runs of bindings that become one plan, and their lowering to stages."""
