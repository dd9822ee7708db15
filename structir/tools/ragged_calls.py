"""Generates random parameters with a ragged axis, and calls of ops on ragged tensors."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from structir.analysis.axes import tensor
from structir.analysis.variables import free_vars
from structir.build import BlockBuilder
from structir.errors import DiagnosticError
from structir.ir.axes import AnySize, Ragged, size_in
from structir.ir.dims import Dim
from structir.ir.expr import Call, Constant, Tuple, Var
from structir.ir.op import Op
from structir.ir.struct_info import TensorStructInfo
from structir.ops.ragged import has_ragged_axis
from structir.passes.lower_ragged import lower_ragged
from structir.tools.calls import CallGenerator

ATTEMPTS = 40
FLAG = TensorStructInfo((), "bool")
RAGGED_DTYPES = ("float32", "float64", "int64")
# Most random calls of all ops are invalid on a ragged tensor: these have more valid ones.
FREQUENT = (
    *("abs", "add", "argmax", "astype", "concat", "divide", "equal", "exp", "greater"),
    *("logical_and", "matmul", "max", "maximum", "mean", "min", "minimum", "multiply", "negative"),
    *("nn.log_softmax", "nn.relu", "nn.softmax", "prod", "ragged.row_lengths"),
    *(
        "ragged.from_padded",
        "ragged.to_padded",
        "ragged.values",
        "std",
        "subtract",
        "sum",
        "tanh",
        "variance",
        "where",
    ),
)


class RaggedCallGenerator:
    """Generates calls with at least one ragged operand, which programs can run."""

    def __init__(self, rng: Random, calls: CallGenerator) -> None:
        self.rng, self.calls = rng, calls

    def params(self, dims: Sequence[Dim]) -> list[Var]:
        """Generates one or two parameters, often with equal rows."""
        rng = self.rng
        leading = tuple([rng.choice(dims) for _ in range(rng.choice([1, 1, 1, 2]))])
        label = rng.choice(["", "len"])
        infos = []
        for _ in range(rng.choice([1, 2, 2])):
            inner = tuple([rng.choice([*dims, 2]) for _ in range(rng.choice([0, 0, 1, 2]))])
            infos.append(tensor((*leading, Ragged(label), *inner), rng.choice(RAGGED_DTYPES)))
        return [Var(f"ragged{k}", info) for k, info in enumerate(infos)]

    def bind(
        self,
        builder: BlockBuilder,
        ragged: list[Var],
        dense: list[Var],
        sizes: Sequence[Dim],
        branches: bool,
    ) -> Var | None:
        """Generates a binding: a call, sometimes a conditional or a match_cast of ragged values;
        None if all attempts failed."""
        kind, own = self.rng.random(), self.rng.choice(ragged)
        info: Any = own.struct_info
        if kind < 0.1 and AnySize() not in map(size_in, info.axes):  # in a cast, `_` names a size
            return builder.match_cast(own, own.struct_info)
        call = self.generate(ragged, dense, sizes)
        if call is None:
            return None
        same = [var for var in ragged if var.struct_info == call.struct_info]
        if not branches or not same or kind > 0.3:
            return builder.emit(call)
        other = self.rng.choice(same)
        flags = [var for var in dense if var.struct_info == FLAG]
        condition = self.rng.choice([*flags, Constant(np.asarray(self.rng.random() < 0.5))])
        return builder.if_else(condition, lambda: builder.emit(call), lambda: other)

    def generate(self, ragged: list[Var], dense: list[Var], sizes: Sequence[Dim]) -> Call | None:
        """Returns a call of a random op; None if all attempts failed."""
        by_name = {op.name: op for op in self.calls.ops}
        frequent = [by_name[name] for name in FREQUENT if name in by_name]
        for _ in range(ATTEMPTS):
            ops: list[Op] = frequent if frequent and self.rng.random() < 0.8 else self.calls.ops
            if not ops:
                return None
            tensors = [*ragged, *self.rng.sample(dense, min(len(dense), 2))]
            call = self.calls.random_call(self.rng.choice(ops), tensors, sizes)
            if call is not None and self.is_usable(call):
                return call
        return None

    def is_usable(self, call: Call) -> bool:
        """Returns whether a call has a ragged operand, a small result, and a lowered form."""
        operands = [v for arg in call.args for v in (arg.fields if type(arg) is Tuple else (arg,))]
        if not any([has_ragged_axis(operand.struct_info) for operand in operands]):
            return False
        info: Any = call.struct_info
        if type(info) is not TensorStructInfo or not self.calls.is_small(info):
            return False
        return has_lowered_form(call)


def has_lowered_form(call: Call) -> bool:
    """Returns whether `lower_ragged` accepts a call."""
    builder = BlockBuilder()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with builder.function("main", list(free_vars(call))):
                builder.emit_func_output(builder.emit(call))
            lower_ragged.transform(builder.get())
    except DiagnosticError:
        return False
    return True
