"""From modules to running code: loop nests, fusion, schedules, kernels, plans, executables."""
