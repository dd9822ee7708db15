"""Mappings of StructIR ops to ONNX ops: one file per op family; `load` imports them all."""

from structir.ir.registry import loader

load = loader(__name__)
