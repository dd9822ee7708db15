"""Control flow of traced functions over trees: conditionals, loops and scans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from structir.errors import Diagnostic, DiagnosticError, caller_span
from structir.frontend.iteration import ABSENT, iterated
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Expr, Tuple
from structir.ir.struct_info import StructInfo, TensorStructInfo
from structir.lazy import exported
from structir.numpy.creation import arange, zeros
from structir.numpy.shaping import flip
from structir.script import R
from structir.tracing import dtypes
from structir.tracing.array import TracedArray, as_array, cast, expression, joint_operands, operand
from structir.tracing.context import fields, session, user_code
from structir.tracing.size import TracedSize, is_size
from structir.tracing.trees import TreeStructure, flatten, unflatten
from structir.transforms.functions import arrays_of, bound, build
from structir.transforms.jit import transformed

MAX_ROUNDS = 4  # passes over a loop body until the dtypes of carried values are stable


def _fail(message: str, hint: str | None = None) -> DiagnosticError:
    return DiagnosticError(Diagnostic(message, caller_span(), hint=hint, code="E1112"))


@attrs.frozen
class BranchResult:
    """The leaves of a branch, and their structure."""

    leaves: list[TracedArray]
    structure: TreeStructure


class DtypesDifferError(Exception):
    """The branches have results of different dtypes; `dtypes` are the common ones."""

    def __init__(self, common: list[str]) -> None:
        super().__init__()
        self.common = common


@exported
def cond(
    pred: Any,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: Any,
    operand: Any = None,
) -> Any:
    """Returns `true_fun(*operands)` if `pred` is true, else `false_fun(*operands)`.

    Only one branch runs. Both return trees of one structure, with equal shapes and dtypes.
    """
    arguments = operands if operand is None else (operand,)
    if not hasattr(pred, "aval"):
        return (true_fun if pred else false_fun)(*arguments)
    return _cond(pred, true_fun, false_fun, *arguments)


def _cond(pred: Any, true_fun: Any, false_fun: Any, *arguments: Any) -> Any:
    @transformed(true_fun)
    def choose(test: Any, *values: Any) -> Any:
        flag = cast(as_array(test), "bool") if not _is_bool(test) else as_array(test)
        if flag.ndim:
            raise _fail(f"cond: expected a scalar condition, found {flag.aval}")
        return _branches(flag, lambda: true_fun(*values), lambda: false_fun(*values))

    return choose(pred, *arguments)


def _is_bool(value: Any) -> bool:
    return as_array(value).dtype_name == "bool"


def _branches(flag: TracedArray, true_fun: Callable[[], Any], false_fun: Callable[[], Any]) -> Any:
    common: list[str] | None = None
    while True:
        try:
            return _chosen(flag, true_fun, false_fun, common)
        except DtypesDifferError as error:
            common = error.common


def _chosen(
    flag: TracedArray,
    true_fun: Callable[[], Any],
    false_fun: Callable[[], Any],
    common: list[str] | None,
) -> Any:
    results: list[BranchResult] = []

    def branch(function: Callable[[], Any]) -> Callable[[], Expr]:
        def emitted() -> Expr:
            with user_code():
                leaves, structure = flatten(function())
            arrays = joint_operands(leaves)
            if common is not None:
                arrays = [cast(a, dtype) for a, dtype in zip(arrays, common, strict=True)]
            elif results:
                _check_equal_branches(results[0], BranchResult(arrays, structure))
            results.append(BranchResult(arrays, structure))
            return Tuple(tuple([bound(expression(a)) for a in arrays]))

        return emitted

    builder = session().builder
    condition = bound(expression(flag))
    value = builder.if_else(condition, branch(true_fun), branch(false_fun))
    return results[0].structure.unflatten(arrays_of(fields(value)))


def _check_equal_branches(first: BranchResult, second: BranchResult) -> None:
    if first.structure != second.structure:
        raise _fail(
            f"cond: expected results of one structure, found {first.structure} and"
            f" {second.structure}",
            "return the same containers from both functions",
        )
    for a, b in zip(first.leaves, second.leaves, strict=True):
        if len(a.dims) != len(b.dims) or any(
            [dims.equal(x, y) is False for x, y in zip(a.dims, b.dims, strict=True)]
        ):
            raise _fail(f"cond: expected results of one shape, found {a.aval} and {b.aval}")
    pairs = list(zip(first.leaves, second.leaves, strict=True))
    if any([a.dtype_name != b.dtype_name for a, b in pairs]):
        joined = [
            dtypes.promote((a.dtype_name, a.weak), (b.dtype_name, b.weak))[0] for a, b in pairs
        ]
        raise DtypesDifferError(joined)


@exported
def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """Returns `branches[index](*operands)`; the index is clamped to the branches."""
    functions = list(branches)
    if isinstance(index, int):
        return functions[min(max(index, 0), len(functions) - 1)](*operands)
    if len(functions) == 1:
        return functions[0](*operands)
    middle = len(functions) // 2
    test = as_array(index) < middle if hasattr(index, "aval") else index < middle

    def low(*values: Any) -> Any:
        return switch(index, functions[:middle], *values)

    def high(*values: Any) -> Any:
        return switch(index - middle, functions[middle:], *values)

    return cond(test, low, high, *operands)


# ---- loops


@exported
def while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any
) -> Any:
    """Returns the value after applying `body_fun` while `cond_fun` is true of the value.

    The value is a tree whose shapes and dtypes do not change. Forward-mode differentiable only.
    """

    @transformed(body_fun)
    def loop(initial: Any) -> Any:
        leaves, structure = flatten(initial)
        start = joint_operands(leaves)
        for _ in range(MAX_ROUNDS):
            changed: list[str] = []
            results = _iterated(start, structure, cond_fun, body_fun, changed)
            if not changed:
                return structure.unflatten(results)
            start = [cast(a, dtype) for a, dtype in zip(start, changed, strict=True)]
        raise _fail("while_loop: the dtypes of the value change in each step")

    return loop(init_val)


class RepeatLoopError(Exception):
    """The dtypes of carried values change in the body."""


def _iterated(
    start: list[TracedArray],
    structure: TreeStructure,
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    changed: list[str],
) -> list[TracedArray]:
    def condition(values: Sequence[Expr]) -> Expr:
        with user_code():
            test = cond_fun(structure.unflatten(arrays_of(values)))
        return bound(expression(cast(operand(test), "bool")))

    def body(step: Expr, values: list[Expr]) -> tuple[Expr, list[Expr], list[Expr]]:
        with user_code():
            leaves, after = flatten(body_fun(structure.unflatten(arrays_of(values))))
        if after != structure:
            raise _fail(f"while_loop: expected {structure} as result of the body, found {after}")
        arrays = joint_operands(leaves)
        _check_carried(start, arrays, "while_loop", changed)
        if changed:
            raise RepeatLoopError
        results = [bound(expression(a)) for a in arrays]
        return condition(results), results, []

    builder = session().builder
    initial = [bound(expression(a)) for a in start]
    try:
        first = condition(initial)
        return arrays_of(iterated(builder, "while_loop", ABSENT, first, initial, [], body))
    except RepeatLoopError:
        return []


def _check_carried(
    before: Sequence[TracedArray], after: Sequence[TracedArray], name: str, changed: list[str]
) -> None:
    """Checks that shapes are unchanged; `changed` receives the common dtypes if some differ."""
    for k, (a, b) in enumerate(zip(before, after, strict=True)):
        same_rank = len(a.dims) == len(b.dims)
        if not same_rank or any(
            [dims.equal(x, y) is False for x, y in zip(a.dims, b.dims, strict=True)]
        ):
            raise _fail(
                f"{name}: carried value {k} changes its shape: expected {a.aval}, found {b.aval}",
                "return a value of the shape of the initial one",
            )
        _fix_undecided(a.dims, b.dims)
    if any([a.dtype_name != b.dtype_name for a, b in zip(before, after, strict=True)]):
        changed += [
            dtypes.promote((a.dtype_name, a.weak), (b.dtype_name, b.weak))[0]
            for a, b in zip(before, after, strict=True)
        ]


def _fix_undecided(first: Sequence[Dim], second: Sequence[Dim]) -> None:
    """Requires the values of sizes that are not proved equal, where values may be fixed."""
    for a, b in zip(first, second, strict=True) if session().fixes_sizes else ():
        if dims.equal(a, b) is None:
            undecided = next(d for d in (a, b) if type(d) is dims.Poly)
            TracedSize(undecided).__index__()


@exported
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: Any = None,
) -> Any:
    """Returns the value after `body_fun(i, value)` for i from `lower` below `upper`.

    Differentiable if the bounds are sizes; bounds that are arrays run as `while_loop`.
    """
    if is_size(lower) and is_size(upper):
        count = upper - lower
        if isinstance(count, int) and count <= 0:
            return init_val

        @transformed(body_fun)
        def loop(initial: Any) -> Any:
            steps = arange(count) + lower
            return scan(lambda value, i: (body_fun(i, value), None), initial, steps)[0]

        return loop(init_val)
    first = (lower, init_val)
    return while_loop(
        lambda pair: pair[0] < upper, lambda pair: (pair[0] + 1, body_fun(*pair)), first
    )[1]


@exported
def scan(
    f: Callable[[Any, Any], Any],
    init: Any,
    xs: Any = None,
    length: Any = None,
    reverse: bool = False,
    unroll: Any = 1,
) -> tuple[Any, Any]:
    """Applies `carry, y = f(carry, x)` to the slices of axis 0; returns the last carry and ys.

    `init`, `xs` and the results are trees. Without `xs`, `length` is the number of steps. The
    shapes and dtypes of the carry do not change.
    """

    @transformed(f)
    def loop(initial: Any, scanned: Any) -> Any:
        leaves, structure = flatten(initial)
        xs_leaves, xs_structure = flatten(scanned)
        operands = joint_operands([*leaves, *xs_leaves])
        start, elements = operands[: len(leaves)], operands[len(leaves) :]
        count = _length(elements, length)
        if isinstance(count, int) and not count:
            return _empty_scan(f, initial, elements, xs_structure)
        if not elements:
            elements, xs_structure = [arange(count)], None  # type: ignore[assignment]
        if reverse:
            elements = [flip(x, 0) for x in elements]
        for _ in range(MAX_ROUNDS):
            results = _scanned(f, start, structure, elements, xs_structure)
            if isinstance(results, list):
                start = [cast(a, dtype) for a, dtype in zip(start, results, strict=True)]
                continue
            carry, outputs, ys_structure = results
            if reverse:
                outputs = [flip(y, 0) for y in outputs]
            return structure.unflatten(carry), unflatten(ys_structure, outputs)
        raise _fail("scan: the dtypes of the carry change in each step")

    return loop(init, xs)


def _length(elements: Sequence[TracedArray], length: Any) -> Any:
    if not elements:
        if length is None:
            raise _fail("scan: expected `xs` or `length`, found neither")
        return length
    sizes = [x.shape[0] if x.ndim else None for x in elements]
    if None in sizes:
        raise _fail("scan: expected arrays with at least one axis, found a scalar")
    for size in sizes[1:]:
        if size != sizes[0]:
            raise _fail(f"scan: expected axes 0 of one size, found {sizes[0]} and {size}")
    return sizes[0]


def _infos(arrays: Sequence[TracedArray], first: int = 0) -> list[StructInfo]:
    return [TensorStructInfo(a.dims[first:], a.dtype_name) for a in arrays]


def _scanned(
    f: Callable[[Any, Any], Any],
    start: list[TracedArray],
    structure: TreeStructure,
    elements: list[TracedArray],
    xs_structure: TreeStructure | None,
) -> Any:
    """Emits a scan; returns carry, outputs and their structure, or the dtypes to start with."""
    count = len(start)
    changed: list[str] = []
    structures: list[TreeStructure] = []

    def step(*values: TracedArray) -> Any:
        x = None if xs_structure is None else xs_structure.unflatten(values[count:])
        result = f(structure.unflatten(values[:count]), x)
        if not isinstance(result, tuple) or len(result) != 2:
            hint = "return a pair, with None as `y` if there is none: `return carry, None`"
            raise _fail("scan: expected a function that returns `(carry, y)`", hint)
        after, after_structure = flatten(result[0])
        if after_structure != structure:
            raise _fail(f"scan: expected a carry {structure}, found {after_structure}")
        carry = joint_operands(after)
        _check_carried(start, carry, "scan", changed)
        ys, ys_structure = flatten(result[1])
        structures.append(ys_structure)
        return (*carry, *joint_operands(ys))

    names = [f"carry{k}" for k in range(count)]
    traced = build(step, [*_infos(start), *_infos(elements, 1)], "step", names)
    builder = session().builder
    if changed:
        del builder.functions[traced.name]
        return changed
    operands = [expression(x) for x in elements]
    captured = session().captured_operands(traced.frame)
    call = R.scan(
        builder.global_var(traced.name),
        Tuple(tuple([expression(a) for a in start])),
        operands[0] if len(operands) == 1 else Tuple(tuple(operands)),
        *([Tuple(tuple(captured))] if captured else []),
    )
    results = arrays_of(fields(builder.emit(call, "scan")))
    return results[:count], results[count:], structures[0]


def _empty_scan(
    f: Callable[[Any, Any], Any],
    initial: Any,
    elements: list[TracedArray],
    structure: TreeStructure,
) -> Any:
    """Returns the result of a scan over no slices; the function is traced for the shapes of ys."""
    infos = _infos(elements, 1)
    kept: list[Any] = []

    def step(*values: TracedArray) -> Any:
        _, ys = f(initial, structure.unflatten(values) if values else None)
        leaves, ys_structure = flatten(ys)
        arrays = joint_operands(leaves)
        kept.append((_infos(arrays), ys_structure))
        return tuple(arrays)

    traced = build(step, infos, "step")
    del session().builder.functions[traced.name]
    ((ys_infos, ys_structure),) = kept
    empty = [zeros((0, *info.dims), info.dtype) for info in ys_infos]
    return initial, ys_structure.unflatten(empty)


@exported
def map(f: Callable[[Any], Any], xs: Any, *, batch_size: Any = None) -> Any:
    """Applies a function to the slices of axis 0, one after the other; see also `vmap`."""
    return scan(lambda _, x: (None, f(x)), None, xs)[1]


@exported
def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """Returns all prefixes of an associative function over axis 0, of known size, in log steps.

    `fn` takes and returns trees of arrays whose axis 0 has any size.
    """

    @transformed(fn)
    def loop(values: Any) -> Any:
        leaves, structure = flatten(values)
        arrays = [a.swapaxes(0, axis) for a in joint_operands(leaves)]
        if reverse:
            arrays = [flip(a, 0) for a in arrays]
        count = arrays[0].shape[0]
        if isinstance(count, TracedSize):
            count = count.__index__()
        distance = 1
        while distance < count:
            arrays = _combined(fn, structure, arrays, distance)
            distance *= 2
        if reverse:
            arrays = [flip(a, 0) for a in arrays]
        return structure.unflatten([a.swapaxes(0, axis) for a in arrays])

    return loop(elems)


def _combined(
    fn: Callable[[Any, Any], Any],
    structure: TreeStructure,
    arrays: list[TracedArray],
    distance: int,
) -> list[TracedArray]:
    """Returns elements combined with those at a distance before them."""
    before = structure.unflatten([a[:-distance] for a in arrays])
    after = structure.unflatten([a[distance:] for a in arrays])
    combined = joint_operands(flatten(fn(before, after))[0])
    pairs = zip(arrays, combined, strict=True)
    return [
        TracedArray(
            session().builder.emit(
                R.concat([expression(a[:distance]), expression(cast(c, a.dtype_name))], axis=0)
            )
        )
        for a, c in pairs
    ]
