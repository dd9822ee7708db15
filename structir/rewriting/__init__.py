"""Rewrite rules: patterns written as ordinary calls, matched in dataflow graphs."""
