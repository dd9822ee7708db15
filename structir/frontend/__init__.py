"""Importers of ONNX models and exported torch programs as StructIR modules."""
