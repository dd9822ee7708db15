"""Mappings of ONNX ops to StructIR ops: one file per op family; `load` imports them all."""

from structir.ir.registry import loader

load = loader(__name__)
