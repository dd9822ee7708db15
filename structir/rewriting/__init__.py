"""Rewrites: patterns written as ordinary calls, found in dataflow graphs, and replaced."""
