# Written by structir.tools.stubs; tests/tools/test_stubs.py holds it to the package.

from structir.frontend.onnx.model import from_onnx as from_onnx
from structir.frontend.onnx.node import OnnxNode as OnnxNode
from structir.frontend.onnx.registry import direct as direct
from structir.frontend.onnx.registry import onnx_op as onnx_op
from structir.frontend.onnx.shapes import shapes_of as shapes_of
