"""Proves that programs and rewrite rules are equal for all sizes, from index specs."""
