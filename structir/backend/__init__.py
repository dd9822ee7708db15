"""Compiles modules: loop nests, fusion, schedules, kernels, plans and executables."""
