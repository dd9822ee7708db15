"""Frontends: models of other systems as StructIR modules."""
