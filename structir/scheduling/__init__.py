"""Schedules of programs and kernels: handles, fusion, explanation, measurement, and text."""
