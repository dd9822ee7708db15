"""Emits reductions over windows: calls of functions for windows of constant sizes, and loops for
others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from structir.ir.kernel import (
    Apply,
    Assign,
    Branch,
    Element,
    For,
    KernelStatement,
    LibraryCall,
    Literal,
    Local,
    LoopVariable,
    Scalar,
)
from structir.ir.kernel_functions import LIBRARY, WINDOW
from structir.loops.emit.emitter import Emitter
from structir.loops.program.kernel_table import dtype_of
from structir.targets.cpu.tiles import tile_shapes
from structir.targets.cpu.window_sums import (
    COMBINATIONS,
    FARTHEST,
    WindowForm,
    form_of_window,
    function_name,
)

# By function: its combination, the function of scalars, and the value without elements.
COMBINE = {
    "window_products": ("product", "add", 0.0),
    "window_sums": ("add", "add", 0.0),
    "window_maxima": ("max", "maximum", -math.inf),
    "window_minima": ("min", "minimum", math.inf),
}
MEASURES = ("rows", "columns", "height", "width", "top", "left")
ZERO = Literal(0, "int64")


def emit_windows(
    emitter: Emitter,
    call: LibraryCall,
    places: Sequence[Callable[[], str]],
    integers: Sequence[str],
) -> None:
    """Emits a reduction over the windows of an image."""
    form, asm = _form(call), emitter.asm
    values = dict(zip(LIBRARY[call.fn].integers, integers, strict=True))
    tests = [] if emitter.is_generated else [_is_small(emitter, values[n]) for n in MEASURES]
    if form is None or not tests:
        _emit_form(emitter, call, form, places, values)
        return
    small, large, after = map(asm.label, ("small", "large", "after"))
    asm.branch(asm.all_of(tests), small, large)
    for label, each in ((small, form), (large, None)):
        asm.start(label)
        _emit_form(emitter, call, each, places, values)
        asm.jump(after)
    asm.start(after)


def _is_small(emitter: Emitter, value: str) -> str:
    """Emits whether a size, or the padding, is at least 0 and so small that all columns have 32
    bits, as the functions assume."""
    return emitter.asm.compare("ult", value, str(2**30))


def _emit_form(
    emitter: Emitter,
    call: LibraryCall,
    form: WindowForm | None,
    places: Sequence[Callable[[], str]],
    values: Mapping[str, str],
) -> None:
    """Emits a call of the function of a form; without one, loops."""
    if form is None:
        emitter.block(_loops(emitter, call))
        return
    pointers = [place() for place in places]
    words = [value for name, value in values.items() if name not in WINDOW]
    words += ["0"] * (10 - len(words))
    pointers += pointers[1:2] * (3 - len(pointers))  # pools read no weights
    arguments = [*[("ptr", p) for p in pointers], *[("i64", w) for w in words]]
    emitter.asm.call_prepared(function_name(form), "void", arguments)


def _form(call: LibraryCall) -> WindowForm | None:
    """Returns the form of the function that computes a call, if there is one."""
    numbers = _integers(call)
    window = [_known(numbers[name]) for name in WINDOW]
    known = [n for n in window if n is not None and 0 < n <= FARTHEST]
    is_wide = dtype_of(call.written.array) == "float32" and bool(tile_shapes("float32"))
    if not is_wide or len(known) < len(window):
        return None
    rows, columns = [_known(numbers[name]) for name in ("rows", "columns")]
    form = form_of_window(known, rows, columns, COMBINATIONS.index(COMBINE[call.fn][0]))
    return form if form.is_supported() else None


def _integers(call: LibraryCall) -> dict[str, Scalar]:
    function = LIBRARY[call.fn]
    return dict(zip(function.integers, call.args[len(function.regions) :], strict=True))


def _known(number: Scalar) -> int | None:
    return int(number.value) if isinstance(number, Literal) else None


def _loops(emitter: Emitter, call: LibraryCall) -> list[KernelStatement]:
    """Returns a call as loops over rows, columns, and the elements of a window."""
    n, function = _integers(call), LIBRARY[call.fn]
    regions = dict(zip(function.regions, call.args, strict=False))
    dtype = dtype_of(call.written.array)
    row, column, i, j = [LoopVariable(f"{call.fn}_{axis}", "int64") for axis in "rcij"]
    y, x = [Local(f"{call.fn}_{axis}", "int64") for axis in "yx"]
    total = Local(f"{call.fn}_total", dtype)
    emitter.assigned.add(total)
    _, combine, start = COMBINE[call.fn]

    def at(region: str, *terms: Scalar) -> Element:
        element = regions[region]
        assert isinstance(element, Element)
        index = reduce(_add, terms, element.indices[0])
        return Element(element.array, (index,), dtype, flat=True)

    value: Scalar = at("image", _mul(y, n["image_row"]), x)
    if "weights" in regions:
        weight = at("weights", _mul(i, n["weight_row"]), _mul(j, n["weight_column"]))
        value = Apply("mul", (value, weight), dtype)
    tests = [
        Apply(fn, sides, "bool")
        for place, size in ((y, n["height"]), (x, n["width"]))
        for fn, sides in (("ge", (place, ZERO)), ("lt", (place, size)))
    ]
    inside = reduce(lambda a, b: Apply("and", (a, b), "bool"), tests)
    step = Branch(inside, (Assign(total, Apply(combine, (total, value), dtype)),), ())
    taps = [
        Assign(x, _tap(n, column, "column", j, n["left"])),
        step,
    ]
    window = [
        Assign(y, _tap(n, row, "row", i, n["top"])),
        For(j, ZERO, n["window_columns"], 1, tuple(taps)),
    ]
    element = at("out", _mul(row, n["out_row"]), column)
    cell = [
        Assign(total, Literal(start, dtype)),
        For(i, ZERO, n["window_rows"], 1, tuple(window)),
        Assign(element, total),
    ]
    return [For(row, ZERO, n["rows"], 1, (For(column, ZERO, n["columns"], 1, tuple(cell)),))]


def _tap(n: dict[str, Scalar], at: Scalar, axis: str, tap: Scalar, before: Scalar) -> Scalar:
    """Returns the position in the image of one element of a window, along an axis."""
    first, offset = _mul(at, n[f"{axis}_step"]), _mul(tap, n[f"{axis}_dilation"])
    return Apply("sub", (_add(first, offset), before), "int64")


def _add(left: Scalar, right: Scalar) -> Scalar:
    return Apply("add", (left, right), "int64")


def _mul(left: Scalar, right: Scalar) -> Scalar:
    return Apply("mul", (left, right), "int64")
