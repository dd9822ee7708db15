"""The runtime: executables, and the compiled regions and functions in them."""
