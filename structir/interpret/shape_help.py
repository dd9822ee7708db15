"""Help lines of calls whose arguments have a wrong shape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, starmap

from structir.errors import ShapeMismatchError
from structir.interpret.scope import Value
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo


def with_shape_help(
    error: ShapeMismatchError, declared: Sequence[tuple[StructInfo, Value, str]]
) -> ShapeMismatchError:
    """Returns the error of a parameter with an edit of the call as help, or the error itself.

    Only a parameter that is one tensor with declared dims gets this help.
    """
    if error.code != ShapeMismatchError.code:
        return error
    for info, value, where in chain.from_iterable(starmap(_leaves, declared)):
        parameter = where.rpartition(": parameter ")[2]
        if parameter == where or not error.message.startswith(f"{where}: "):
            continue
        if "\nhelp: " in error.message or not isinstance(info, TensorStructInfo):
            return error
        if not isinstance(info.dims, tuple) or not hasattr(value, "shape"):
            return error
        array = f'np.asarray({parameter}, "{value.dtype.name}")'  # the argument may be a list
        message = f"{error.message}\nhelp: {_edit(array, info.dims, value.shape)}"
        return type(error)(message, code=error.code)
    return error


def _leaves(info: StructInfo, value: Value, where: str) -> Iterator[tuple[StructInfo, Value, str]]:
    """Yields the values of nested tuples with their locations, as messages name them."""
    if not isinstance(info, TupleStructInfo) or not isinstance(value, tuple):
        yield info, value, where
        return
    parts = [f".{k}" for k in info.names] if info.names else [f"[{k}]" for k in range(len(value))]
    for field, item, part in zip(info.fields, value, parts, strict=False):
        yield from _leaves(field, item, where + part)


def _edit(array: str, declared: tuple[Dim, ...], shape: tuple[int, ...]) -> str:
    """Returns a change of the argument that gives it the declared shape."""
    expected = f"({', '.join(map(dims.text, declared))}{',' * (len(declared) == 1)})"
    edits = {"[None]": (1, *shape), "[..., None]": (*shape, 1), ".T": shape[::-1]}
    if shape[:1] == (1,):
        edits["[0]"] = shape[1:]
    for edit, new_shape in edits.items():
        if new_shape != shape and _fits(declared, new_shape):
            return f"pass `{array}{edit}`, of shape {new_shape}; expected {expected}"
    return f"pass an array of shape {expected}"


def _fits(declared: tuple[Dim, ...], shape: tuple[int, ...]) -> bool:
    """Whether a shape has the declared rank and the sizes that are constants."""
    return len(declared) == len(shape) and all(
        not isinstance(dim, int) or dim == size for dim, size in zip(declared, shape, strict=True)
    )
