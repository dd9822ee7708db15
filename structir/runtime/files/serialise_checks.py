"""Validates stored plans: JSON types, and consistency of the parts of a plan.

A file can hold anything. Data that this package does not write is rejected here, before it reaches
an allocation, an address table or generated code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from structir.ir import dims
from structir.ir.dims import Dim, Poly, Sym
from structir.ir.dtype import DTYPES
from structir.ir.expr import Var
from structir.ir.polynomial import BUILDERS
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.loops.products.contraction import MatrixForm
from structir.loops.products.packing import PACKINGS
from structir.loops.program.buffer import Buffer
from structir.loops.regions.leaves import leaves_of
from structir.runtime.kernel_sequence import Boundary, KernelSequence
from structir.runtime.plans.sizes import symbols_of
from structir.targets.cpu.layouts import PHASE

INTEGER_LIMIT = 1 << 63  # larger integers are not sizes
WITHOUT_DATA = frozenset({"input", "value", "scratch"})
ORIGINS = WITHOUT_DATA | {"constant"}
ARITIES = {"select": 3}


class NotStoredError(Exception):
    """A value without a stored form, or stored data that is not valid."""


def require(condition: bool, message: str) -> None:
    """Raises NotStoredError unless a condition holds."""
    if not condition:
        raise NotStoredError(message)


def integer(value: Any) -> int:
    """Returns a 64-bit integer."""
    if type(value) is not int or not -INTEGER_LIMIT <= value < INTEGER_LIMIT:
        raise NotStoredError("expected an integer")
    return value


def count(value: Any, limit: int) -> int:
    """Returns a number from 0 to a limit."""
    if type(value) is not int or not 0 <= value <= limit:
        raise NotStoredError("expected a number within its limits")
    return value


def item(index: Any, table: Sequence[Any]) -> Any:
    """Returns the item of a table at an index."""
    if type(index) is not int or index < 0:
        raise NotStoredError("expected an index")
    return table[index]


def string(value: Any) -> str:
    """Returns a string that can be encoded."""
    if type(value) is not str:
        raise NotStoredError("expected a string")
    if not value.isascii():
        value.encode()  # a lone surrogate raises a ValueError
    return value


def strings(value: Any) -> tuple[str, ...]:
    """Returns a list of strings."""
    require(type(value) is list, "expected a list")
    return tuple([string(item) for item in value])


def flag(value: Any) -> bool:
    """Returns a boolean."""
    if type(value) is not bool:
        raise NotStoredError("expected a boolean")
    return value


def dtype(value: Any) -> str:
    """Returns the name of a dtype."""
    if type(value) is not str or value not in DTYPES:
        raise NotStoredError("expected a dtype")
    return value


def function_of_sizes(value: Any, args: int) -> str:
    """Returns the name of a function of sizes with this many arguments."""
    require(type(value) is str and value in BUILDERS, "expected a function of sizes")
    fits = args >= 2 if value in ("min", "max") else args == ARITIES.get(value, 2)
    require(fits, "another number of arguments")
    return str(value)


def interval(value: Any) -> tuple[int | None, int | None]:
    """Returns the bounds of a size."""
    low, high = value
    return (None if low is None else integer(low), None if high is None else integer(high))


def matrix_form(data: Any, packing: Any, fields: Sequence[Any]) -> MatrixForm:
    """Returns the layout of a matrix in a constant; all its elements are inside the constant."""
    form = MatrixForm(*[count(field, INTEGER_LIMIT) for field in fields])
    require(packing in PACKINGS and min(form.terms, form.columns) > 0, "expected packed panels")
    last = form.start + (form.terms - 1) * form.down + (form.columns - 1) * form.across
    require(last < data.size, "a matrix beyond its constant")
    return form


def check_buffer(buffer: Buffer) -> None:
    """Checks a buffer that shares memory or holds data."""
    data = buffer.data
    require(buffer.origin in ORIGINS, "unknown origin")
    if data is not None:
        matches = isinstance(data, np.ndarray) and data.dtype.name == buffer.dtype
        require(matches and data.shape == buffer.shape, "a constant of another form")
    if buffer.base is None:
        require((data is not None) == (buffer.origin == "constant"), "a constant without data")


def check_function(params: Sequence[Var], boundary: Boundary, shape: Any) -> None:
    """Checks that a region takes the parameters of its function, and has the results it names."""
    fits = [
        _takes(p.struct_info, b) for p, b in zip(leaves_of(params), boundary.inputs, strict=True)
    ]
    require(all(fits), "other parameters")
    numbers = list(_numbers(shape))
    require(numbers == list(range(len(boundary.results))), "other results")


def _takes(info: StructInfo | None, buffer: Buffer) -> bool:
    if not isinstance(info, TensorStructInfo) or info.dtype != buffer.dtype:
        return False
    return info.ndim == len(buffer.shape) and info.dims in (None, buffer.shape)


def _numbers(shape: Any) -> Iterable[int]:
    if not isinstance(shape, tuple):
        return [shape]
    return [number for item in shape for number in _numbers(item)]


def check_region(boundary: Boundary, recipes: Sequence[KernelSequence]) -> None:
    """Checks that recipes fit their boundary, and that arguments determine all their sizes."""
    require(len(recipes) == (2 if boundary.equal else 1), "another number of forms")
    determined = {dims.as_sym(d) for b in boundary.inputs for d in b.shape} | {
        *boundary.free_symbols
    }
    used: set[Dim] = {*boundary.doubtful, *boundary.equal.values()}
    used.update(*[b.shape for b in boundary.results])
    used.update([d for check in boundary.checks for d in (check.left, check.right)])
    for recipe in recipes:
        _check_recipe(recipe, boundary)
        used |= _dims_of(recipe)
    symbols: set[Sym | None] = {*symbols_of(used), *boundary.equal}
    require(symbols <= determined, "sizes that no argument has")


def _dims_of(recipe: KernelSequence) -> set[Dim]:
    kernels = recipe.kernels
    buffers = {*recipe.inputs, *recipe.outputs, *recipe.results}
    buffers.update(*[k.pointers for k in kernels], *[k.scratch for k in kernels])
    used: set[Dim] = {*recipe.operations, *[k.range for k in kernels]}
    used.update(*[k.sizes for k in kernels], *[b.shape for b in buffers])
    works = [k.estimate() for k in kernels if k.estimate is not None]
    used.update([work.picoseconds for work in works], [work.rows for work in works])
    return used


def _check_recipe(recipe: KernelSequence, boundary: Boundary) -> None:
    require(_forms(recipe.inputs) == _forms(boundary.inputs), "other inputs")
    require(_forms(recipe.results) == _forms(boundary.results), "other results")
    require(len(recipe.operations) == len(recipe.kernels), "another number of kernels")
    inputs, outputs = {*recipe.inputs}, {*recipe.outputs}
    require(all(_is_from(inputs, b) and b.origin == "input" for b in inputs), "other inputs")
    require(inputs.issuperset(recipe.overwritten), "an overwritten value that is no input")
    filled = {b.root for b in outputs}
    for result in recipe.results:
        owned = result.root in filled or result.root in inputs or result.root.data is not None
        require(owned and (result.base is None or result in outputs), "a result of nothing")
    pointers: set[Buffer] = set().union(*[k.pointers for k in recipe.kernels])
    require(all([_is_from(inputs, b) for b in pointers]), "a pointer to nothing")
    for kernel in recipe.kernels:
        words = len(kernel.pointers) + len(kernel.sizes)
        require(len(kernel.names) in (0, words), "another number of names")


def _is_from(inputs: set[Buffer], buffer: Buffer) -> bool:
    """Whether a buffer has its own memory, given these inputs."""
    return buffer.base is None and (buffer.origin != "input" or buffer in inputs)


def _forms(buffers: Sequence[Buffer]) -> list[tuple[str, int]]:
    return [(b.dtype, len(b.shape)) for b in buffers]


def signature(infos: Iterable[StructInfo | None]) -> list[Any]:
    """Returns the parts of StructInfo that a plan depends on; equal for lists that differ only in
    the identity of symbols."""
    return [_key_of(info) for info in infos]


def _key_of(info: StructInfo | None) -> Any:
    match info:
        case TensorStructInfo(tuple(shape), name, _, None):
            return name, [d.key(_name_of) if type(d) is Poly else d for d in shape]
        case TensorStructInfo(None, name, ndim, None):
            return name, ndim
        case TupleStructInfo(fields):
            return tuple(map(_key_of, fields))
    return info


def _name_of(symbol: Sym) -> Any:
    return symbol.name


def has_phase_words(value: bool, sizes: Sequence[Dim]) -> bool:
    """Returns whether the last sizes of a kernel are the words of its phases."""
    is_valid = len(sizes) >= len(PHASE) and (sizes[-3], sizes[-1]) == (0, 0)
    require(not value or is_valid, "expected the words of phases")
    return value
