"""Generates and schedules the kernels of groups of stages."""
