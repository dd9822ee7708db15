# Written by structir.tools.stubs; tests/tools/test_stubs.py holds it to the package.

from structir.frontend import onnx as onnx
from structir.frontend import torch as torch
from structir.frontend.onnx.model import from_onnx as from_onnx
from structir.frontend.torch.model import from_exported_program as from_exported_program
from structir.frontend.torch.model import from_pt2 as from_pt2
