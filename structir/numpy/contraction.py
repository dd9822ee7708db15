"""Products of vectors and matrices."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.expr import Expr
from structir.numpy.creation import broadcast, diagonal, eye, zeros_like
from structir.numpy.elementwise import clip, real
from structir.numpy.reductions import any, average, sum
from structir.numpy.shaping import axis_of, concatenate, expand_dims, moveaxis, reshape, swapaxes
from structir.script import R
from structir.tracing.array import (
    TracedArray,
    cast,
    emit,
    equally_long,
    expression,
    of_rank,
    operand,
    promoted,
)
from structir.tracing.context import traced

AXES_EXAMPLE = "`einsum(x, [0, 1], y, [1, 2], [0, 2])`"


def _operands(*values: Any, dtype: Any = None) -> list[TracedArray]:
    """Returns operands in their common dtype, or in the dtype of the sums."""
    operands, _ = promoted(*values)
    return operands if dtype is None else [cast(x, dtype) for x in operands]


def _sum_product(values: list[TracedArray], op: Callable[[list[Expr]], Expr]) -> TracedArray:
    """Emits a sum product; that of bools is true where any product is."""
    if values[0].dtype_name != "bool":
        return emit(op([expression(x) for x in values]))
    counts = emit(op([expression(cast(x, "int32")) for x in values]))
    return counts != 0


@traced
def matmul(
    x1: Any, x2: Any, /, *, precision: Any = None, preferred_element_type: Any = None
) -> TracedArray:
    """Returns the matrix product over the last two axes; other axes broadcast."""
    x, y = _operands(x1, x2, dtype=preferred_element_type)
    return _sum_product([x, y], lambda pair: R.matmul(*pair))


@traced
def dot(
    a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None
) -> TracedArray:
    """Returns the sum product over the last axis of a and the second last of b."""
    x, y = _operands(a, b, dtype=preferred_element_type)
    if not x.ndim or not y.ndim:
        return x * y
    if y.ndim <= 2 and (x.ndim <= 2 or y.ndim == 2):
        return matmul(x, y)
    return tensordot(x, y, ((x.ndim - 1,), (max(y.ndim - 2, 0),)))


@traced
def inner(a: Any, b: Any) -> TracedArray:
    """Returns the sum product over the last axes."""
    x, y = _operands(a, b)
    if not x.ndim or not y.ndim:
        return x * y
    return tensordot(x, y, ((x.ndim - 1,), (y.ndim - 1,)))


@traced
def vdot(a: Any, b: Any) -> TracedArray:
    """Returns the sum product of all elements."""
    return tensordot(reshape(a, -1), reshape(b, -1), 1)


@traced
def vecdot(x1: Any, x2: Any, axis: int = -1) -> TracedArray:
    """Returns the sum product over one axis."""
    products = operand(x1) * operand(x2)
    return any(products, axis) if products.dtype_name == "bool" else sum(products, axis)


@traced
def outer(a: Any, b: Any) -> TracedArray:
    """Returns the products of each pair of elements of two vectors."""
    return reshape(a, (-1, 1)) * reshape(b, (1, -1))


@traced
def tensordot(a: Any, b: Any, axes: Any = 2) -> TracedArray:
    """Returns the sum product over pairs of axes; a number is that many axes at the border."""
    x, y = _operands(a, b)
    if isinstance(axes, int):
        axes = (range(x.ndim - axes, x.ndim), range(axes))
    if len(axes) != 2:
        message = f"tensordot: axes: expected a number or a pair, found {axes}"
        raise DiagnosticError(Diagnostic(message, code="E1107"))
    first, second = [list(s) if hasattr(s, "__iter__") else [s] for s in axes]
    letters = iter(string.ascii_letters)
    left = [next(letters) for _ in range(x.ndim)]
    right = [next(letters) for _ in range(y.ndim)]
    for p, q in equally_long("tensordot: axes", first, second):
        right[axis_of(q, y.ndim)] = left[axis_of(p, x.ndim)]
    shared = {*left} & {*right}
    result = [a for a in (*left, *right) if a not in shared]
    return einsum(f"{''.join(left)},{''.join(right)}->{''.join(result)}", x, y)


@traced
def einsum(
    subscripts: Any,
    *operands: Any,
    optimize: Any = True,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> TracedArray:
    """Returns the sum product that the subscripts describe: `einsum("ij,jk->ik", x, y)`, or
    `einsum(x, [0, 1], y, [1, 2], [0, 2])`."""
    if operands and isinstance(operands[0], list | tuple) and not isinstance(subscripts, str):
        subscripts, operands = _as_letters((subscripts, *operands))
    if not isinstance(subscripts, str) or not operands:
        message = "einsum: expected subscripts and operands, found "
        message += "no operands" if isinstance(subscripts, str) else type(subscripts).__name__
        raise DiagnosticError(Diagnostic(message, hint='`einsum("ij,jk->ik", x, y)`', code="E1107"))
    values = _operands(*operands, dtype=preferred_element_type)
    text = subscripts.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    parts = inputs.split(",")
    if len(parts) > 2 and "..." not in text:
        return _in_pairs(parts, output if arrow else _implicit(inputs), values)
    return _sum_product(values, lambda operands: R.einsum(operands, text))


def _as_letters(items: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """Returns the subscripts, as a string, and the operands of pairs of operand and axes.

    The letters are in the order of the labels, which is that of the axes of an implicit output.
    """
    axes = items[1::2] if len(items) % 2 == 0 else (*items[1::2], items[-1])
    labels = sorted({label for part in axes for label in _labels(part)})
    alphabet = string.ascii_lowercase
    if len(labels) > len(alphabet):
        alphabet = "".join(sorted(string.ascii_letters))
    if len(labels) > len(alphabet):
        message = f"einsum: expected at most {len(alphabet)} labels, found {len(labels)}"
        raise DiagnosticError(Diagnostic(message, hint=AXES_EXAMPLE, code="E1107"))
    letters = dict(zip(labels, alphabet, strict=False))
    parts = ["".join(["..." if n is ... else letters[n] for n in part]) for part in axes]
    count = len(items) // 2
    arrow = "->" + parts[-1] if len(items) % 2 else ""
    return ",".join(parts[:count]) + arrow, tuple(items[: 2 * count : 2])


def _labels(part: Any) -> list[int]:
    """Returns the labels of the axes of one operand, without an ellipsis."""
    is_list = isinstance(part, list | tuple)
    labels = [label for label in part if label is not ...] if is_list else []
    if is_list and all(isinstance(label, int) for label in labels):
        return labels
    message = f"einsum: axes: expected a list of integers, found {_shown(part)}"
    raise DiagnosticError(Diagnostic(message, hint=AXES_EXAMPLE, code="E1107"))


def _shown(part: Any) -> str:
    is_plain = isinstance(part, int | str | list | tuple) or part is None
    return repr(part) if is_plain else type(part).__name__


def _implicit(inputs: str) -> str:
    letters = inputs.replace(",", "")
    return "".join(sorted({a for a in letters if letters.count(a) == 1}))


def _in_pairs(parts: list[str], output: str, values: list[TracedArray]) -> TracedArray:
    """Contracts the operands from the left, two at a time."""
    current, value = parts[0], values[0]
    for k in range(1, len(parts)):
        later = {*"".join(parts[k + 1 :]), *output}
        kept = "".join(dict.fromkeys([a for a in current + parts[k] if a in later]))
        target = output if k == len(parts) - 1 else kept
        pair = [expression(value), expression(values[k])]
        value = emit(R.einsum(pair, f"{current},{parts[k]}->{target}"))
        current = target
    return value


@traced
def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None
) -> TracedArray:
    """Returns the sum of a diagonal."""
    return sum(diagonal(a, offset, axis1, axis2), -1, dtype)


@traced
def kron(a: Any, b: Any) -> TracedArray:
    """Returns the Kronecker product of two arrays; the one of lower rank gets leading axes of 1."""
    x, y = _operands(a, b)
    rank = max(x.ndim, y.ndim)
    x, y = [reshape(z, (*[1] * (rank - z.ndim), *z.shape)) for z in (x, y)]
    sizes = [m * n for m, n in zip(x.shape, y.shape, strict=True)]
    x = expand_dims(x, [2 * k + 1 for k in range(rank)])
    y = expand_dims(y, [2 * k for k in range(rank)])
    return reshape(x * y, sizes)


@traced
def cross(a: Any, b: Any, axis: int = -1) -> TracedArray:
    """Returns the cross product of vectors with two or three components.

    Of two vectors with two components it is the third component, without the axis.
    """
    x, y = (moveaxis(v, axis, -1) for v in _operands(a, b))
    pairs = [v.shape[-1] == 2 for v in (x, y)]
    if all(pairs):
        return x[..., 0] * y[..., 1] - x[..., 1] * y[..., 0]
    x, y = (
        concatenate([v, zeros_like(v[..., :1])], -1) if is_pair else v
        for v, is_pair in zip((x, y), pairs, strict=True)
    )
    parts = [
        x[..., i : i + 1] * y[..., j : j + 1] - x[..., j : j + 1] * y[..., i : i + 1]
        for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    return moveaxis(concatenate(parts, -1), -1, axis)


@traced
def convolve(a: Any, v: Any, mode: str = "full") -> TracedArray:
    """Returns the discrete convolution of two vectors. Modes: full, same, valid."""
    x, kernel = _operands(of_rank(a, "convolve: a", 1), of_rank(v, "convolve: v", 1))
    if x.dtype_name == "bool":
        x, kernel = cast(x, "int32"), cast(kernel, "int32")
    m = kernel.shape[0]
    if isinstance(m, int) and isinstance(x.shape[0], int) and m > x.shape[0]:
        x, kernel, m = kernel, x, x.shape[0]
    pads = {"full": (m - 1, m - 1), "same": (m - 1 - (m - 1) // 2, (m - 1) // 2), "valid": (0, 0)}
    weight = kernel[::-1][None, None, :]
    padding = [int(p) for p in pads[mode]]
    call = R.nn.conv1d(expression(x[None, None, :]), expression(weight), padding=padding)
    return emit(call)[0, 0]


@traced
def correlate(a: Any, v: Any, mode: str = "valid") -> TracedArray:
    """Returns the cross-correlation of two vectors. Modes: full, same, valid."""
    x, y = of_rank(a, "correlate: a", 1), of_rank(v, "correlate: v", 1)
    sizes = x.shape[0], y.shape[0]
    if all(isinstance(n, int) for n in sizes) and sizes[0] < sizes[1]:
        return convolve(y, x[::-1], mode)[::-1]
    return convolve(x, y[::-1], mode)


@traced
def corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> TracedArray:
    """Returns the correlation of variables, which are rows by default."""
    covariance = cov(x, y, rowvar)
    if not covariance.ndim:
        return covariance / covariance
    spread = diagonal(covariance) ** 0.5
    return clip(covariance / spread[:, None] / spread[None, :], -1, 1)


@traced
def matrix_power(a: Any, n: int) -> TracedArray:
    """Returns a square matrix to a power that is not negative."""
    matrix = operand(a)
    result: TracedArray | None = None
    for _ in range(n):
        result = matrix if result is None else matmul(result, matrix)
    if result is None:
        return broadcast(eye(matrix.shape[-1], dtype=matrix.dtype_name), matrix.shape)
    return result


@traced
def vander(x: Any, N: int | None = None, increasing: bool = False) -> TracedArray:
    """Returns the powers of elements as columns."""
    array = of_rank(x, "vander: x", 1)
    count = array.shape[0] if N is None else N
    exponents = range(count) if increasing else range(count - 1, -1, -1)
    return concatenate([(array**k)[:, None] for k in exponents], 1)


@traced
def polyval(p: Any, x: Any) -> TracedArray:
    """Returns the value of a polynomial, whose first coefficient has the highest power."""
    result: Any = 0
    for coefficient in operand(p):
        result = result * operand(x) + coefficient
    return operand(result)


@traced
def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
) -> TracedArray:
    """Returns the covariance of variables, which are rows by default; of a vector its variance.

    `fweights` counts the observations, `aweights` are their weights.
    """
    variables = [_variables(v, rowvar) for v in (m, y) if v is not None]
    x = variables[0] if y is None else concatenate(variables, 0)
    freedom = (0 if bias else 1) if ddof is None else ddof
    weights: Any = None if fweights is None else operand(fweights)
    if aweights is not None:
        weights = operand(aweights) * (1 if weights is None else weights)
    centred = x - average(x, 1, weights)[:, None]
    if weights is None:
        product, count = matmul(centred, swapaxes(centred, 0, 1)), x.shape[1] - freedom
    else:
        product, total = matmul(centred, swapaxes(centred * weights, 0, 1)), sum(weights)
        repeats = 1 if aweights is None else sum(weights * operand(aweights)) / total
        count = total - freedom * repeats
    result = product / count
    return result[0, 0] if result.shape[0] == 1 else result


def _variables(values: Any, rowvar: bool) -> TracedArray:
    array = real(values)
    if array.ndim < 2:
        return array.reshape((1, -1))
    return array if rowvar else swapaxes(array, 0, 1)
