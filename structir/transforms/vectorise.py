"""`structir.numpy.vectorize`: a function of elements or of subarrays, applied by broadcasting."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.dims import Dim
from structir.lazy import exported
from structir.numpy.shaping import reshape
from structir.tracing.array import TracedArray, operand
from structir.transforms.jit import transformed
from structir.transforms.mapping import vmap

OPERAND = re.compile(r"\(([^()]*)\)")


@exported
def vectorize(
    pyfunc: Callable[..., Any], *, excluded: Collection[int] = (), signature: str | None = None
) -> Callable[..., Any]:
    """Returns a function that is applied to each element, with broadcasting.

    `signature`, such as `"(n,m),(m)->(n)"`, states the axes of each subarray that the function
    takes; the other axes are broadcast. Arguments at the positions `excluded` are passed as they
    are. Sources: `numpy.vectorize`, `jax.numpy.vectorize`.
    """
    cores = None if signature is None else _core_ranks(signature)

    @functools.wraps(pyfunc)
    @transformed(pyfunc)
    def vectorized(*args: Any) -> Any:
        chosen = [k for k in range(len(args)) if k not in excluded]
        arrays = [operand(args[k]) for k in chosen]
        ranks = [0] * len(arrays) if cores is None else cores
        if len(ranks) != len(arrays):
            raise _wrong(f"expected {len(ranks)} arguments for {signature}, found {len(arrays)}")
        loops = [_loop_dims(a, rank) for a, rank in zip(arrays, ranks, strict=True)]
        depth = max(map(len, loops), default=0)
        aligned = [(*[1] * (depth - len(loop)), *loop) for loop in loops]

        def of_elements(*values: Any) -> Any:
            filled = list(args)
            for k, value in zip(chosen, values, strict=True):
                filled[k] = value
            return pyfunc(*filled)

        mapped = of_elements
        squeezed = [_squeezed(a, loop) for a, loop in zip(arrays, loops, strict=True)]
        for axis in reversed(range(depth)):
            in_axes = tuple([None if dims[axis] == 1 else 0 for dims in aligned])
            if any([position == 0 for position in in_axes]):
                mapped = vmap(mapped, in_axes=in_axes)
        return _with_single_axes(mapped(*squeezed), aligned, depth)

    return vectorized


def _core_ranks(signature: str) -> list[int]:
    """Returns the number of axes of each operand in a signature."""
    inputs, arrow, outputs = signature.replace(" ", "").partition("->")
    operands = OPERAND.findall(inputs)
    if not arrow or not OPERAND.search(outputs) or ",".join(f"({o})" for o in operands) != inputs:
        raise _wrong(f'signature: expected text like "(n,m),(m)->(n)", found {signature!r}')
    return [len([name for name in o.split(",") if name]) for o in operands]


def _loop_dims(array: TracedArray, core: int) -> tuple[Dim, ...]:
    if array.ndim < core:
        raise _wrong(f"expected an array of at least {core} axes, found {array.aval}")
    return tuple(array.dims[: array.ndim - core])


def _squeezed(array: TracedArray, loop: Sequence[Dim]) -> TracedArray:
    """Returns an array without its axes of size 1 that are broadcast."""
    if 1 not in loop:
        return array
    kept = [size for size, dim in zip(array.shape, loop, strict=False) if dim != 1]
    return reshape(array, (*kept, *array.shape[len(loop) :]))


def _with_single_axes(result: Any, aligned: Sequence[Sequence[Dim]], depth: int) -> Any:
    """Returns results with the axes of size 1 that every operand has."""
    single = [axis for axis in range(depth) if all([dims[axis] == 1 for dims in aligned])]
    if not single:
        return result
    if isinstance(result, tuple | list):
        return type(result)([_with_single_axes(each, aligned, depth) for each in result])
    array = operand(result)
    sizes = iter(array.shape)
    leading = [1 if axis in single else next(sizes) for axis in range(depth)]
    return reshape(array, (*leading, *sizes))


def _wrong(message: str) -> DiagnosticError:
    hint = 'give the axes of each argument: `vectorize(f, signature="(n),(n)->()")`'
    return DiagnosticError(Diagnostic(f"vectorize: {message}", hint=hint, code="E1111"))
