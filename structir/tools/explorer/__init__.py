"""The explorer: a program as one HTML page: its graph, its text, its kernels, its passes."""
