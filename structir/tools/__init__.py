"""The command line `structir`, the explorer, the fuzzer, and generators of documentation pages."""
