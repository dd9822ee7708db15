"""The explorer: one HTML page with the graph, source, kernels and passes of a program."""
