"""Widens the floats of a program to float64, so that rounding hardly changes its results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from structir.analysis.purity import is_pure_call
from structir.analysis.variables import walk_values
from structir.errors import StructIRError
from structir.ir.dtype import FLOATS, dtype_of, numpy_dtype
from structir.ir.expr import Call, Constant, ExternFunc, StringImm
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.ir.node import Node, rebuild, replace
from structir.ir.op import Op
from structir.passes.manager.input_values import LARGE
from structir.passes.manager.perturbation import leaves, rounds_nothing
from structir.passes.manager.value_numbers import value_numbers

WIDE = "float64"
NARROWER = FLOATS - {WIDE}


class DTypeReplacement:
    """A rewrite of some dtypes to another one: in StructInfos, attributes and constants."""

    def __init__(self, sources: frozenset[str], target: str) -> None:
        self.sources, self.target = sources, target
        self._widened: dict[int, tuple[Any, Any]] = {}  # by id, with the node to keep it alive

    def array(self, data: Any) -> Any:
        """Returns an array of a source dtype in the target dtype."""
        return data.astype(self.target)

    def pairs(self) -> Iterator[tuple[Any, Any]]:
        """Yields the visited nodes with their replacements."""
        return iter(self._widened.values())

    def visit(self, part: Any) -> Any:
        """Returns a part of a program with the dtypes replaced."""
        if type(part) is str:
            return self.target if part in self.sources else part
        if isinstance(part, Mapping):
            return {key: self.visit(value) for key, value in part.items()}
        if type(part) is tuple:
            return tuple([self.visit(item) for item in part])
        if not isinstance(part, Node):
            return part
        if id(part) not in self._widened:
            self._widened[id(part)] = part, self._node(part)
        return self._widened[id(part)][1]

    def _node(self, node: Node) -> Node:
        if type(node) is StringImm:
            return node
        if type(node) is Constant:
            if dtype_of(node.data) not in self.sources:
                return node
            return Constant(self.array(node.data), span=node.span)
        if type(node) is Call and (dtype := _float_dtype(node)) in self.sources:
            # a number of the program has the dtype of the call, as a constant has
            attributes = {**_default_numbers(node), **node.attrs}
            numbers = {key: _rounded(value, dtype) for key, value in attributes.items()}
            if any(numbers[key] is not value for key, value in attributes.items()):
                node = replace(node, attrs={**node.attrs, **numbers})
        return rebuild(node, self.visit)


def _float_dtype(call: Call) -> str:
    """Returns the dtype of a call's result if it is a tensor of floats, else an empty string."""
    dtype = getattr(call.struct_info, "dtype", None)
    return dtype if dtype in FLOATS else ""


def _default_numbers(call: Call) -> dict[str, float]:
    """Returns the omitted attributes of a call whose defaults are floats."""
    signature = getattr(getattr(call.op, "definition", None), "signature", None)
    parameters = () if signature is None else signature.attributes
    return {p.name: p.default for p in parameters if type(p.default) is float}


def _rounded(value: Any, dtype: str) -> Any:
    if type(value) is not float or not np.isfinite(value):
        return value
    rounded = float(np.asarray(value).astype(numpy_dtype(dtype)))
    return rounded if np.isfinite(rounded) and rounded != value else value


def widened_module(module: IRModule) -> IRModule | None:
    """Returns a module with float64 for every float; None if its functions need other dtypes, as
    kernels, external functions and memory plans do."""
    pairs = widened_pairs(module)
    return None if pairs is None else pairs[0]


def widened_pairs(module: IRModule) -> tuple[IRModule, list[tuple[Any, Any]]] | None:
    """Returns a module with float64 for every float, and its nodes with those of the new one; None
    if its functions need other dtypes."""
    replacement = DTypeReplacement(frozenset(NARROWER), WIDE)
    wide = replace_dtypes(module, replacement)
    return None if wide is None else (wide, list(replacement.pairs()))


def replace_dtypes(module: IRModule, replacement: DTypeReplacement) -> IRModule | None:
    """Returns a module with other dtypes; None if its functions need theirs."""
    if any(isinstance(value, Kernel) for value in module.functions.values()):
        return None
    if any(map(_needs_dtypes, walk_values(module))):
        return None
    try:
        functions = {name: replacement.visit(value) for name, value in module.functions.items()}
    except StructIRError:
        return None
    return module.with_functions(functions)


def _needs_dtypes(node: Any) -> bool:
    """Whether a node is an external function, or a call with an effect, such as on memory."""
    is_call = type(node) is Call and type(node.op) is Op
    return type(node) is ExternFunc or (is_call and not is_pure_call(node))


def widened_value(value: Any, large: dict[Any, Any]) -> Any:
    """Returns an argument with every float as float64; `large` memoizes large arrays by id."""
    if isinstance(value, list | tuple):
        return type(value)([widened_value(item, large) for item in value])
    if not _is_narrow(value):
        return value
    if value.size <= LARGE:
        return value.astype(WIDE)
    if id(value) not in large:
        large[id(value)] = value, value.astype(WIDE)  # the value itself keeps its id
    return large[id(value)][1]


def has_narrow_floats(values: Any) -> bool:
    """Whether a result or the arguments contain floats that can be widened."""
    return any(map(_is_narrow, leaves(values)))


def folded_rounding(before: IRModule, after: IRModule, name: str) -> tuple[float, frozenset[bytes]]:
    """Returns the relative rounding error of float constants that a pass added, or combined
    otherwise with the values of a function, and these in float64; 0 if none, or if these are
    numbers of few digits, which are not rounded."""
    constants = (*_added(before, after), *_regrouped(before, after, name))
    inexact = [data for data in constants if not _is_exact(data)]
    finfo: Any = ml_dtypes.finfo
    error = max((float(finfo(data.dtype).eps) for data in inexact), default=0.0)
    return error, frozenset(data.astype(WIDE).tobytes() for data in inexact)


def adds_rounded_constants(before: IRModule, after: IRModule) -> bool:
    """Whether a pass added float constants of many digits, which it may have rounded."""
    return not all(map(_is_exact, _added(before, after)))


def _added(before: IRModule, after: IRModule) -> Iterator[Any]:
    """Yields the float constants that only the second program has."""
    known = {_key(constant) for constant in _float_constants(before)}
    return (c.data for c in _float_constants(after) if _key(c) not in known)


def _regrouped(before: IRModule, after: IRModule, name: str) -> Iterator[Any]:
    """Yields the float constants among the operands of calls that only one program has, and that
    round: `x > 0.3` computes no other number from its constant."""
    programs = value_numbers(before, name), value_numbers(after, name)
    common = {number for _, number in programs[0]} & {number for _, number in programs[1]}
    for call, number in (*programs[0], *programs[1]):
        for arg in call.args if number not in common and not rounds_nothing(call) else ():
            if type(arg) is Constant and dtype_of(arg.data) in FLOATS:
                yield arg.data


def _is_exact(data: Any) -> bool:
    """Whether all elements are multiples of 1/64 of at most 1,024."""
    scaled = data.astype(np.float64) * 64
    return bool(np.all(scaled == np.rint(scaled)) and np.abs(scaled).max(initial=0) <= 1 << 16)


def _float_constants(module: IRModule) -> Iterator[Constant]:
    for node in walk_values(module):
        if type(node) is Constant and dtype_of(node.data) in FLOATS:
            yield node


def _key(constant: Constant) -> tuple[Any, ...]:
    return constant.data.dtype, constant.data.shape, constant.data.tobytes()


def _is_narrow(value: Any) -> bool:
    array: Any = value
    return isinstance(value, np.ndarray | np.generic) and dtype_of(array) in NARROWER
