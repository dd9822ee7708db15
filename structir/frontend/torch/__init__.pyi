# Written by structir.tools.stubs; tests/tools/test_stubs.py holds it to the package.

from structir.frontend.torch.model import from_exported_program as from_exported_program
from structir.frontend.torch.model import from_pt2 as from_pt2
from structir.frontend.torch.node import FxNode as FxNode
from structir.frontend.torch.registry import direct as direct
from structir.frontend.torch.registry import torch_op as torch_op
