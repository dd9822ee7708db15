"""Reads and writes files of programs and arrays."""
