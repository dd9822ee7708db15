"""The parser: program text to IR."""
