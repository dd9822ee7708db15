"""Generates random calls of any op on available values, without knowledge of particular ops.

An op is called with random values and attributes until its own rule accepts them. Its examples
provide attributes that random search would not reach.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

import attrs
import numpy as np

from structir.errors import DiagnosticError, DiagnosticWarning
from structir.ir.dims import Dim, Poly, Sym, evaluate, syms
from structir.ir.dtype import is_float
from structir.ir.expr import Call, Constant, Expr, Var
from structir.ir.op import Op, registered_ops
from structir.ir.struct_info import (
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.opdef.attributes import AttributeKind, InvalidAttribute
from structir.opdef.declaration import DeclaredOp, is_built_in
from structir.opdef.parameters import REQUIRED
from structir.system.locks import cached_property

DTYPES = ("float32", "float32", "float32", "float64", "int64", "int32", "bool")
ATTEMPTS = 8
MAX_ELEMENTS = 600  # of a result, with PROBE for each symbolic dim
PROBE = 4
MAX_RANK = 5
QUOTED = re.compile(r"'([^']*)'")


@attrs.frozen(eq=False)
class CallGenerator:
    """Generates calls from one stream of random numbers."""

    rng: Random
    dtypes: Sequence[str] = DTYPES
    admits: Callable[[Op], bool] = lambda op: op.definition.pure
    unchecked_probability: float = 0.1  # probability of keeping a call that may fail at run time
    example_probability: float = 0.0  # probability of starting from an example of the op

    @cached_property
    def ops(self) -> list[Op]:
        """All ops that may be generated."""
        # declared ops of the package, by name: neither ops registered elsewhere nor the import
        # order may change the program of a seed
        builtin = [op for op in registered_ops() if is_built_in_op(op)]
        # a program that names vdevices compiles for one target only
        anywhere = [op for op in builtin if "vdevice" not in getattr(op.definition, "hooks", {})]
        return sorted([op for op in anywhere if self.admits(op)], key=lambda op: op.name)

    def generate(self, live: Sequence[Var], sizes: Sequence[Dim]) -> Call | None:
        """Returns a call of a random op on some of these values; None if all attempts failed."""
        tensors = [var for var in live if _is_tensor(var)]
        for _ in range(ATTEMPTS if tensors else 0):
            op = self.rng.choice(self.ops)
            use_example = (
                self.example_probability > 0 and self.rng.random() < self.example_probability
            )
            for _ in range(ATTEMPTS):
                call = (
                    self.example_call(op, tensors)
                    if use_example
                    else self.random_call(op, tensors, sizes)
                )
                if call is not None and self.is_usable(call):
                    return call
        return None

    def random_call(self, op: Op, tensors: Sequence[Var], sizes: Sequence[Dim]) -> Call | None:
        """Returns a call of this op on random arguments; None if the op rejects them."""
        chance = self.rng.random()
        first = self.rng.choice(tensors) if chance < 0.9 else self.constant(chance < 0.95)
        arguments: dict[str, Any] = {}
        for parameter in op.definition.signature.parameters:  # type: ignore[attr-defined]
            if parameter.default is not REQUIRED and self.rng.random() < 0.6:
                continue
            if parameter.is_list:
                count = self.rng.randint(1, 3)
                value: Any = tuple([self.operand(first, tensors) for _ in range(count)])
            elif parameter.kind is None:
                value = self.operand(first, tensors) if arguments else first
            else:
                value = self.attribute(parameter.kind, first, sizes)
            arguments[parameter.name] = value
        try:
            return op(**arguments)
        except (DiagnosticError, DiagnosticWarning):
            return None

    def example_call(self, op: Op, tensors: Sequence[Var]) -> Call | None:
        """Returns a call from an example of the op, with some arrays replaced by variables."""
        examples = op.definition.examples  # type: ignore[attr-defined]
        if not examples:
            return None
        args, keywords = self.rng.choice(examples)
        replace_arrays = self.rng.random() < 0.6
        try:
            return op(
                *[self.replace_array(arg, tensors, replace_arrays) for arg in args],
                **{
                    n: self.replace_array(arg, tensors, replace_arrays)
                    for n, arg in keywords.items()
                },
            )
        except (DiagnosticError, DiagnosticWarning):
            return None

    def replace_array(self, value: Any, tensors: Sequence[Var], replace_arrays: bool) -> Any:
        """Replaces an array of an example by a constant, or by a value of its rank and dtype."""
        if isinstance(value, list):
            return [self.replace_array(item, tensors, replace_arrays) for item in value]
        if not isinstance(value, np.ndarray | np.generic):
            return value
        array = np.asarray(value)
        compatible = [
            var
            for var in tensors
            if _rank_and_dtype(var.struct_info) == (array.ndim, array.dtype.name)
        ]
        if replace_arrays and compatible and self.rng.random() < 0.5:
            return self.rng.choice(compatible)
        return Constant(array)

    def operand(self, first: Expr, tensors: Sequence[Var]) -> Any:
        """Returns a further operand, mostly one similar to the first operand."""
        chance = self.rng.random()
        if chance < 0.15:
            return self.rng.choice([0.5, 2.0, 1, 2])
        if chance < 0.25:
            return self.constant(self.rng.random() < 0.8)
        if chance < 0.6:
            same_info = [var for var in tensors if var.struct_info == first.struct_info]
            return self.rng.choice(same_info or [first])
        dtype = getattr(first.struct_info, "dtype", None)
        same_dtype = [v for v in tensors if getattr(v.struct_info, "dtype", None) == dtype]
        return self.rng.choice(tensors if chance > 0.9 or not same_dtype else same_dtype)

    def constant(self, is_floating: bool) -> Constant:
        """Returns a small array of any rank: some ops need many axes, or constant sizes."""
        shape = [self.rng.choice([1, 2, 2]) for _ in range(self.rng.randint(0, 5))]
        values = np.random.default_rng(self.rng.randrange(1 << 30)).integers(0, 3, shape)
        dtypes = [dtype for dtype in self.dtypes if is_float(dtype) == is_floating]
        return Constant(values.astype(self.rng.choice(dtypes or self.dtypes)))

    def attribute(self, kind: AttributeKind, first: Expr, sizes: Sequence[Dim]) -> Any:
        """Returns a value of a kind of attribute."""
        for _ in range(4 * ATTEMPTS):
            value = self.candidate(kind, first.struct_info, sizes)
            try:
                kind.normalize(value)
            except InvalidAttribute:
                continue
            return value
        return None

    def candidate(self, kind: AttributeKind, info: StructInfo, sizes: Sequence[Dim]) -> Any:
        """Returns a candidate value of an attribute."""
        rng, rank = self.rng, getattr(info, "ndim", None) or 0
        choices = QUOTED.findall(kind.expected)
        if choices:
            return rng.choice(choices)
        shape = info.dims if isinstance(info.dims, tuple) else ()  # type: ignore[attr-defined]
        axes = rng.sample(range(rank), rank)
        return rng.choice(
            [
                rng.randint(-rank, max(rank - 1, 0)),
                rng.randint(0, 3),
                rng.random() < 0.5,
                rng.choice([0.5, 1.0, 2.0]),
                rng.choice(self.dtypes),
                tuple(axes),
                tuple(axes[: rng.randint(0, rank)]),
                rng.choice(sizes) if sizes else 1,
                shape,
                tuple(rng.sample(shape, len(shape))),
                (-1, *shape[:-2]),
                tuple([rng.choice(sizes or (1,)) for _ in range(rank)]),
                tuple([rng.randint(0, 2) for _ in range(rank)]),
                tuple([rng.randint(0, 2) for _ in range(2 * rank)]),
            ]
        )

    def is_usable(self, call: Call) -> bool:
        """Returns whether a result is small, of a permitted dtype, and mostly of known shape."""
        info = call.struct_info
        assert info is not None
        if not all(map(self.is_small, _tensors(info))):
            return False
        has_known_shapes = all(isinstance(tensor.dims, tuple) for tensor in _tensors(info))
        is_certain = has_known_shapes and not call.op.definition.assumptions(call)  # type: ignore[attr-defined]
        return is_certain or self.rng.random() < self.unchecked_probability

    def is_small(self, info: TensorStructInfo) -> bool:
        """Returns whether a tensor has a permitted dtype and few elements."""
        if info.dtype not in self.dtypes or info.ndim is None or info.ndim > MAX_RANK:
            return False
        dims = info.dims if isinstance(info.dims, tuple) else ()
        return elements(dims) <= MAX_ELEMENTS and all(map(_is_simple, dims))


def _rank_and_dtype(info: Any) -> tuple[int, str]:
    return info.ndim, info.dtype


def is_built_in_op(op: Op) -> bool:
    """Whether the package declares an op by a signature."""
    definition = op.definition
    return isinstance(definition, DeclaredOp) and is_built_in(definition.body)


def elements(dims: Iterable[Dim]) -> int:
    """Returns the number of elements of a tensor, with PROBE for each symbolic dim."""
    total = 1
    for dim in dims:
        total *= max(evaluate(dim, _Probe()), 1)
    return total


class _Probe(dict[Sym, int]):
    """Maps every symbolic variable to PROBE."""

    def __missing__(self, key: Sym) -> int:
        return PROBE

    def __contains__(self, key: object) -> bool:
        return True


def _is_simple(dim: Dim) -> bool:
    return type(dim) is int or (type(dim) is Poly and len(dim.terms) <= 3 and len(syms(dim)) <= 2)


def _is_tensor(value: Expr) -> bool:
    info = value.struct_info
    return isinstance(info, TensorStructInfo) and info.ndim is not None and info.dtype is not None


def _tensors(info: StructInfo) -> list[TensorStructInfo]:
    """Returns the tensors of a StructInfo; an unknown tensor for values of unknown size."""
    if isinstance(info, TupleStructInfo):
        return [tensor for field in info.fields for tensor in _tensors(field)]
    if isinstance(info, ShapeStructInfo) and info.ndim is not None:
        return []
    return [info if isinstance(info, TensorStructInfo) else TensorStructInfo()]
