"""Importer of exported torch programs: `from_exported_program(ep)` and `from_pt2(path)`."""

from structir.frontend.torch.model import from_exported_program, from_pt2

__all__ = ["from_exported_program", "from_pt2"]
