"""The part of cache keys that machine code depends on besides its source: versions, the CPU, and
this package's files."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm
import numpy as np

from structir.lazy import lazy_module
from structir.targets.cpu.features import processor

structir = lazy_module("structir")

PACKAGE = Path(__file__).resolve().parent
# Functions in these files are inlined into kernels, or emit functions of the library.
SOURCES = (PACKAGE, PACKAGE / "math", PACKAGE.parents[1] / "scalars")


@cache
def sources_digest() -> str:
    """Returns a hash of the files that define the functions that kernels call."""
    hasher = hashlib.sha256()
    for path in sorted(p for folder in SOURCES for p in folder.glob("*.py")):
        hasher.update(path.name.encode() + path.read_bytes())
    return hasher.hexdigest()


@cache
def machine_identity() -> str:
    """Returns everything that must be equal for cached machine code to be valid."""
    features = llvm.get_host_cpu_features().flatten()
    versions = [structir.__version__, llvmlite.__version__, np.__version__]
    parts = [*versions, sys.version, sys.platform, llvm.get_process_triple()]
    parts += [llvm.get_host_cpu_name(), features, *processor(), sources_digest()]
    return "\n".join(map(str, parts))
