"""The CPU backend: machine code by LLVM."""
