"""Mappings of the primitives of JAX: one file per family; `load` imports them all."""

from structir.ir.registry import loader

load = loader(__name__)
