"""Mappings of ops whose values no index spec has: one file per op family; `load` imports all."""

from structir.ir.registry import loader

load = loader(__name__)
