"""Decision tree ensembles: their nodes as arrays, and the kernel that traverses them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import attrs
import numpy as np

from structir.ir.kernel import Kernel
from structir.printer.parser.parser import parse

LEQ, LESS, GEQ, GREATER, EQUAL, DIFFERENT, MEMBER, LEAF = range(8)


@attrs.frozen(eq=False)
class Trees:
    """All nodes of all trees as arrays; each entry of a leaf is a weight of one target."""

    modes: Sequence[int]
    features: Sequence[int]
    splits: Sequence[float]
    on_true: Sequence[int]
    on_false: Sequence[int]
    missing_true: Sequence[int]
    first: Sequence[int]  # range of the members of a set, or of the entries of a leaf
    last: Sequence[int]
    members: Sequence[float]
    roots: Sequence[int]
    weights: Sequence[float]
    targets: Sequence[int]

    def arrays(self, dtype: str) -> list[np.ndarray[Any, Any]]:
        """Returns the arrays in the order of the kernel's parameters; an empty array becomes
        [0]."""
        floats = {"splits", "members", "weights"}
        return [
            np.array(list(getattr(self, f.name)) or [0], dtype if f.name in floats else "int64")
            for f in attrs.fields(Trees)
        ]


SOURCE = """\
@I.kernel
def tree_ensemble_{how}(
    x: R.Tensor(("rows", "width"), "{dtype}"),
    modes: R.Tensor(("nodes",), "int64"),
    features: R.Tensor(("nodes",), "int64"),
    splits: R.Tensor(("nodes",), "{dtype}"),
    on_true: R.Tensor(("nodes",), "int64"),
    on_false: R.Tensor(("nodes",), "int64"),
    missing_true: R.Tensor(("nodes",), "int64"),
    first: R.Tensor(("nodes",), "int64"),
    last: R.Tensor(("nodes",), "int64"),
    members: R.Tensor(("sets",), "{dtype}"),
    roots: R.Tensor(("trees",), "int64"),
    weights: R.Tensor(("entries",), "{dtype}"),
    targets: R.Tensor(("entries",), "int64"),
    out: R.Tensor(("rows", "target_count"), "{dtype}"),
    has_weight: R.Tensor(("rows", "target_count"), "bool"),
):
    for row in range(rows):
        for target in range(target_count):
            out[row, target] = 0.0
            has_weight[row, target] = False
        for tree in range(trees):
            node = roots[tree]
            for step in range(nodes):
                if modes[node] == 7:
                    break
                value = x[row, features[node]]
                mode = modes[node]
                split = splits[node]
                is_true = False
                if mode == 0:
                    is_true = value <= split
                if mode == 1:
                    is_true = value < split
                if mode == 2:
                    is_true = value >= split
                if mode == 3:
                    is_true = value > split
                if mode == 4:
                    is_true = value == split
                if mode == 5:
                    is_true = value != split
                if mode == 6:
                    for k in range(first[node], last[node]):
                        if members[k] == value:
                            is_true = True
                if value != value and missing_true[node] != 0:
                    is_true = True
                if is_true:
                    node = on_true[node]
                else:
                    node = on_false[node]
            if modes[node] == 7:
                for k in range(first[node], last[node]):
                    target = targets[k]
                    if has_weight[row, target]:
                        out[row, target] = {joined}
                    else:
                        out[row, target] = weights[k]
                    has_weight[row, target] = True
"""
COMBINED = {
    "sum": "out[row, target] + weights[k]",
    "min": "min(out[row, target], weights[k])",
    "max": "max(out[row, target], weights[k])",
}


@cache
def tree_kernel(aggregate: str, dtype: str) -> Kernel:
    """Returns the kernel (features, arrays of `Trees`) -> combined leaf weights per target, and a
    mask of the targets that have a weight."""
    source = SOURCE.format(how=aggregate, dtype=dtype, joined=COMBINED[aggregate])
    name = f"tree_ensemble_{aggregate}"
    kernel = parse(source, f"{name}.py").functions[name]
    assert isinstance(kernel, Kernel)
    return kernel
