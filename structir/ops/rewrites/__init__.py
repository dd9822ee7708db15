"""Rewrite rules of particular ops.

Each file of this package is loaded when a pass first requests rules. A new file needs no
registration.
"""

from structir.ir.registry import loader

load = loader(__name__)
