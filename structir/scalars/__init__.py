"""Scalar functions of floats: one file per family, which declares all facts of its functions.

A new file needs no registration.
"""

from structir.ir.registry import loader

load = loader(__name__)
