"""Files of programs and arrays."""
