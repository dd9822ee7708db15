"""Files of executables and of cached plans."""
