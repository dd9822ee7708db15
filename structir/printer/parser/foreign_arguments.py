"""Adapts arguments of ops of NumPy, PyTorch and JAX: permutations, subscripts, sizes, dtypes.

An adjustment returns the arguments of the expression to write, or None where it has none of the
same meaning.
"""

from __future__ import annotations

import ast
import string
from collections.abc import Callable, Sequence
from typing import Any

from structir.ir.struct_info import TensorStructInfo
from structir.printer.parser.name_hints import dtype_of_name

Arguments = dict[str, ast.expr]
InfoOf = Callable[[ast.expr], TensorStructInfo | None]
Adjustment = Callable[[Arguments, InfoOf], Arguments | None]


def _constant(node: ast.expr | None) -> Any:
    """Returns the value of a literal; None for other expressions."""
    try:
        return None if node is None else ast.literal_eval(node)
    except ValueError:
        return None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _literal(value: Any) -> ast.expr:
    return ast.parse(repr(value), mode="eval").body


def _axes(value: Any, rank: int) -> list[int] | None:
    """Returns literal axes counted from the first; None if they are no distinct axes."""
    axes = list(value) if isinstance(value, tuple | list) else [value]
    if not all(type(a) is int and -rank <= a < rank for a in axes):
        return None
    axes = [a % rank for a in axes]
    return axes if len({*axes}) == len(axes) else None


def _rank(node: ast.expr, info_of: InfoOf) -> int | None:
    info = info_of(node)
    return None if info is None else info.ndim


# ---- permutations


def _swapped(first: ast.expr, second: ast.expr, rank: int | None) -> ast.expr | None:
    if rank is None:
        return None
    axes = [_constant(first), _constant(second)]
    if not all(type(axis) is int and -rank <= axis < rank for axis in axes):
        return None
    order, (i, j) = list(range(rank)), axes
    order[i], order[j] = order[j], order[i]
    return _literal(order)


def _with(arguments: Arguments, name: str, value: ast.expr | None) -> Arguments | None:
    return None if value is None else {**arguments, name: value}


def _swapaxes(arguments: Arguments, info_of: InfoOf) -> Arguments | None:
    rank = _rank(arguments["x"], info_of)
    return _with(arguments, "axes", _swapped(arguments["axis1"], arguments["axis2"], rank))


def _moveaxis(arguments: Arguments, info_of: InfoOf) -> Arguments | None:
    rank = _rank(arguments["x"], info_of)
    if rank is None:
        return None
    source = _axes(_constant(arguments["source"]), rank)
    destination = _axes(_constant(arguments["destination"]), rank)
    if source is None or destination is None or len(source) != len(destination):
        return None
    order = [axis for axis in range(rank) if axis not in source]
    for position, axis in sorted(zip(destination, source, strict=True)):
        order.insert(position, axis)
    return _with(arguments, "axes", _literal(order))


def _transpose(arguments: Arguments, info_of: InfoOf) -> Arguments | None:
    """NumPy and JAX take a permutation, PyTorch two axes that it swaps."""
    axes, other, rank = arguments["axes"], arguments["other"], _rank(arguments["x"], info_of)
    if not _is_none(other):
        return _with(arguments, "axes", _swapped(axes, other, rank))
    if _is_none(axes):
        return arguments
    value = _constant(axes)
    order = _axes(value, rank) if rank is not None and isinstance(value, tuple | list) else None
    return None if order is None else {**arguments, "axes": _literal(order)}


# ---- subscripts


def _product(x: int, y: int, pairs: Sequence[tuple[int, int]]) -> ast.expr | None:
    """Returns the subscripts of a sum product over pairs of axes of two tensors."""
    letters = iter(string.ascii_lowercase[8:] + string.ascii_lowercase[:8])
    left = [next(letters) for _ in range(x)]
    right = [""] * y
    for p, q in pairs:
        right[q] = left[p]
    right = [letter or next(letters) for letter in right]
    shared = {left[p] for p, _ in pairs}
    result = [letter for letter in (*left, *right) if letter not in shared]
    return _literal(f"{''.join(left)},{''.join(right)}->{''.join(result)}")


def _ranks(arguments: Arguments, info_of: InfoOf) -> tuple[int, int] | None:
    x, y = _rank(arguments["x"], info_of), _rank(arguments["y"], info_of)
    return None if not x or not y or x + y > len(string.ascii_lowercase) else (x, y)


def _inner(arguments: Arguments, info_of: InfoOf) -> Arguments | None:
    ranks = _ranks(arguments, info_of)
    if ranks is None:
        return None
    return _with(arguments, "subscripts", _product(*ranks, [(ranks[0] - 1, ranks[1] - 1)]))


def _tensordot(arguments: Arguments, info_of: InfoOf) -> Arguments | None:
    ranks, axes = _ranks(arguments, info_of), _constant(arguments["axes"])
    if ranks is None:
        return None
    if type(axes) is int and 0 <= axes <= min(ranks):
        axes = (range(ranks[0] - axes, ranks[0]), range(axes))
    if not isinstance(axes, tuple | list) or len(axes) != 2:
        return None
    first, second = [
        _axes(tuple(part) if isinstance(part, range) else part, rank)
        for part, rank in zip(axes, ranks, strict=True)
    ]
    if first is None or second is None or len(first) != len(second):
        return None
    return _with(arguments, "subscripts", _product(*ranks, list(zip(first, second, strict=True))))


def _dot(arguments: Arguments, info_of: InfoOf) -> Arguments | None:
    """A product with a tensor of more than two axes has the axes of both, other than `R.matmul`."""
    ranks = _ranks(arguments, info_of)
    return arguments if ranks is not None and (ranks[1] <= 2 or ranks[0] == 1) else None


def _on_diagonal(output: str) -> Adjustment:
    """Returns the adjustment of ops that read the diagonal of the first two axes."""

    def adjust(arguments: Arguments, info_of: InfoOf) -> Arguments | None:
        rank = _rank(arguments["x"], info_of)
        if rank is None or rank < 2 or rank > 10:
            return None
        others = string.ascii_lowercase[9 : 9 + rank - 2]
        return _with(arguments, "subscripts", _literal(f"ii{others}->{others}{output}"))

    return adjust


# ---- dtypes


def _dtype(node: ast.expr) -> ast.expr | None:
    """Returns a dtype as a string for `int8`, `np.int8`, `"int8"`; None for other expressions."""
    value = _constant(node)
    name = value if isinstance(value, str) else ast.unparse(node).rpartition(".")[2]
    dtype = dtype_of_name(name)
    return None if dtype is None else _literal(dtype)


def _with_dtype(arguments: Arguments, info_of: InfoOf) -> Arguments | None:
    return _with(arguments, "dtype", _dtype(arguments["dtype"]))


def _iota(arguments: Arguments, info_of: InfoOf) -> Arguments | None:
    """JAX takes the dtype first."""
    if _dtype(arguments["n"]) is not None:
        return _with_dtype({"n": arguments["dtype"], "dtype": arguments["n"]}, info_of)
    return _with_dtype(arguments, info_of)


def _astensor(arguments: Arguments, info_of: InfoOf) -> Arguments | None:
    value = _constant(arguments["x"])
    if value is None:
        return None
    if _is_none(arguments["dtype"]):
        numbers = [n for n in ast.walk(arguments["x"]) if isinstance(n, ast.Constant)]
        kinds = {type(number.value) for number in numbers}
        if not kinds or not kinds <= {bool, int, float} or (bool in kinds and len(kinds) > 1):
            return None
        dtype = "float32" if float in kinds else "int64" if int in kinds else "bool"
        return {**arguments, "dtype": _literal(dtype)}
    return _with_dtype(arguments, info_of)


def _of_floats(arguments: Arguments, info_of: InfoOf) -> Arguments | None:
    """Other libraries compute in floats where operands are integers; ops here keep the dtype."""
    infos = [info_of(arguments[name]) for name in ("x", "y") if name in arguments]
    dtypes = [info.dtype for info in infos if info is not None and info.dtype is not None]
    return arguments if dtypes and all("float" in dtype for dtype in dtypes) else None


def _of_bools(arguments: Arguments, info_of: InfoOf) -> Arguments | None:
    info = info_of(arguments["x"])
    if info is None or info.dtype is None:
        return None
    if info.dtype == "bool":
        return arguments
    x = ast.unparse(arguments["x"])
    return {**arguments, "x": ast.parse(f'R.astype({x}, "bool")', mode="eval").body}


# ---- others


def _norm(arguments: Arguments, info_of: InfoOf) -> Arguments | None:
    """Maps norms that are the root of the sum of squares."""
    order, axis = arguments["ord"], _constant(arguments["axis"])
    value, rank = _constant(order), _rank(arguments["x"], info_of)
    if _is_none(order) or value == "fro" or (value == 2 and (type(axis) is int or rank == 1)):
        return _of_floats(arguments, info_of)
    return None


def _variance(arguments: Arguments, info_of: InfoOf) -> Arguments | None:
    """The default of PyTorch, with keywords of its own, divides by one less than the count."""
    torch = {name: arguments[name] for name in ("dim", "keepdim", "correction", "unbiased")}
    is_biased = _constant(torch["correction"]) == 0 or _constant(torch["unbiased"]) is False
    is_torch = not all(_is_none(value) for value in torch.values())
    if _constant(arguments["ddof"]) != 0 or (is_torch and not is_biased):
        return None
    renamed = {"axis": torch["dim"], "keepdims": torch["keepdim"]}
    given = {name: value for name, value in renamed.items() if not _is_none(value)}
    return _of_floats({**arguments, **given}, info_of)


def _joined(arguments: Arguments, info_of: InfoOf) -> Arguments | None:
    """NumPy joins flat arrays where the axis is None."""
    return None if _is_none(arguments["axis"]) else arguments


def _chunk(arguments: Arguments, info_of: InfoOf) -> Arguments | None:
    """Sections of unequal sizes differ between libraries."""
    info, count = info_of(arguments["x"]), _constant(arguments["chunks"])
    axis = _constant(arguments["axis"]) or 0
    if info is None or type(count) is not int or count < 1 or type(axis) is not int:
        return None
    dims = info.dims
    if not isinstance(dims, tuple) or not -len(dims) <= axis < len(dims):
        return None
    size = dims[axis]
    return arguments if isinstance(size, int) and size % count == 0 else None


def _sizes(arguments: Arguments, info_of: InfoOf) -> Arguments | None:
    sizes = arguments.get("sizes")
    if sizes is None:
        return None
    is_number = type(_constant(sizes)) is int
    return _with(arguments, "sizes", ast.Tuple([sizes], ast.Load()) if is_number else sizes)


def _linspace(arguments: Arguments, info_of: InfoOf) -> Arguments | None:
    start, stop, count = (_constant(arguments[name]) for name in ("start", "stop", "num"))
    if type(start) not in (int, float) or type(stop) not in (int, float):
        return None
    if type(count) is not int or count < 2:
        return None
    step = _literal((stop - start) / (count - 1))
    return {**arguments, "start": _literal(float(start)), "step": step}


ADJUSTMENTS: dict[str, Adjustment] = {
    **dict.fromkeys(("all", "any"), _of_bools),
    **dict.fromkeys(("cast", "convert", "identity"), _with_dtype),
    **dict.fromkeys(("div", "hypot", "isclose", "linalg.inv", "logaddexp"), _of_floats),
    **dict.fromkeys(("logsumexp", "reciprocal"), _of_floats),
    **dict.fromkeys(("broadcast", "expand", "view"), _sizes),
    **dict.fromkeys(("linalg.norm", "norm"), _norm),
    **dict.fromkeys(("cat", "concatenate"), _joined),
    "astensor": _astensor,
    "chunk": _chunk,
    "diagonal": _on_diagonal("i"),
    "dot": _dot,
    "inner": _inner,
    "iota": _iota,
    "linspace": _linspace,
    "moveaxis": _moveaxis,
    "swapaxes": _swapaxes,
    "tensordot": _tensordot,
    "trace": _on_diagonal(""),
    "transpose": _transpose,
    "var": _variance,
}
