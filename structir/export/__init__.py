"""Exporters: programs as models of other frameworks."""
