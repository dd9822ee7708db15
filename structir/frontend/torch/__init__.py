"""Exported programs of torch as modules: `from_exported_program(ep)`, `from_pt2(path)`."""

from structir.frontend.torch.model import from_exported_program, from_pt2

__all__ = ["from_exported_program", "from_pt2"]
