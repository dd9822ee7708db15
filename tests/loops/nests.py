"""Random handwritten loop nests: products and others, in any loop order and with any tiles."""

from __future__ import annotations

from typing import Any

import attrs
from hypothesis import strategies as st

SIZES = {"b": "q", "i": "n", "j": "m", "k": "p"}


@attrs.frozen
class Nest:
    """The source of a kernel, and whether it must become a product of the library."""

    source: str
    is_product: bool


@attrs.frozen
class _Loop:
    """The lines that open a loop over an axis, or over its blocks, and the test that they need."""

    axis: str
    heads: list[str]
    test: str = ""


@st.composite
def nests(draw: Any) -> Nest:
    """Draws a nest that accumulates to a matrix: each axis may be tiled, by blocks that need not
    divide it, with remainders by `min` or by `if`, with the loops in any order."""
    batch = draw(st.sampled_from(["", "", "b, "]))
    dtype = draw(st.sampled_from(["float32", "float64"]))
    kind = draw(st.sampled_from([*KINDS]))
    axes = draw(st.permutations([*(["b"] if batch else []), "i", "j", *kind_axes(kind)]))
    fixed = draw(st.booleans())
    sizes = {a: str(draw(st.integers(1, 11))) if fixed else SIZES[a] for a in "bijk"}
    elements = {
        "A": draw(st.sampled_from([f"a[{batch}i, k]", f"a[{batch}k, i]", "a[i, k]"])),
        "B": draw(st.sampled_from([f"b_[{batch}k, j]", f"b_[{batch}j, k]", "b_[k, j]"])),
        "C": f"c[{batch}i, j]",
        "D": draw(st.sampled_from(["d[j]", "d[i]"])),
    }
    loops = draw(_loops(axes, sizes))
    inner = draw(_loops(["k"], sizes)) if "k" not in axes else []
    joined = draw(st.booleans())
    body = _body(kind, inner, {**elements, "dtype": dtype}, joined)
    lines = _nested(loops, body, joined)
    head = ", ".join(f"{_name(e)}: {_tensor(e, sizes, dtype)}" for e in _params(elements))
    source = "\n".join(f"    {line}" for line in lines)
    return Nest(f"@I.kernel\ndef f({head}):\n{source}\n", kind in PRODUCTS)


TERMS = "for k: "  # the loop over terms, where it is not one of any order
KINDS = {
    "product": ["{C} = {C} + {A} * {B}"],
    "augmented": ["{C} += {B} * {A}"],
    "sum in any order": ["{C} = T.add_to({C}, {A} * {B})"],
    "least sum": ["{C} = min({C}, {A} + {B})"],
    "difference": ["{C} = {C} - {A} * {B}"],
    "scaled": ["{C} = {C} + 2.0 * {A} * {B}"],
    "two": ["{C} = {C} + {A} * {B}", "{C} = {C} * {B}"],
    "total": ["t = T.{dtype}(0.0)", TERMS + "t = t + {A} * {B}", "{C} = t"],
    "epilogue": ["t = T.{dtype}(0.5)", TERMS + "t = t + {A} * {B}", "{C} = max(t + {D}, 0.0)"],
    "bias": ["{C} = {D}", TERMS + "{C} = {C} + {A} * {B}", "{C} = {C} * 2.0"],
    "read later": ["t = {C}", TERMS + "t = t + {A} * {B}", "{C} = t * {C}"],
}
PRODUCTS = {"product", "augmented", "sum in any order", "total", "epilogue", "bias"}


def kind_axes(kind: str) -> list[str]:
    """Returns the axes whose loops are around all statements, besides those of the result."""
    return [] if any(TERMS in line for line in KINDS[kind]) else ["k"]


@st.composite
def _loops(draw: Any, axes: list[str], sizes: dict[str, str]) -> list[_Loop]:
    """Draws the loops over axes, outermost first; those over blocks may be anywhere before."""
    loops = [_Loop(axis, [f"for {axis} in range({sizes[axis]}):"]) for axis in axes]
    for axis in draw(st.sets(st.sampled_from(axes))):
        size, count = sizes[axis], draw(st.integers(2, 5))
        form = draw(st.sampled_from(["min", "if", "numbered", "assigned", "position"]))
        at = next(k for k, loop in enumerate(loops) if loop.axis == axis)
        start, blocks = f"{axis}0", f"for {axis}0 in range(0, {size}, {count}):"
        if form == "numbered":
            start = f"{axis}0 * {count}"
            blocks = f"for {axis}0 in range(({size} + {count - 1}) // {count}):"
        stop = f"{start} + {count}" if form == "if" else f"min({start} + {count}, {size})"
        test = f"{axis} < {size}" if form == "if" else ""
        heads = [f"for {axis} in range({start}, {stop}):"]
        if form == "assigned":
            heads = [f"end_{axis} = {stop}", f"for {axis} in range({start}, end_{axis}):"]
        if form == "position":
            heads = [f"for {axis}1 in range({count}):", f"{axis} = {axis}0 + {axis}1"]
            test = f"{axis} < {size}"
        loops[at] = _Loop(axis, heads, test)
        loops.insert(draw(st.integers(0, at)), _Loop(f"{axis}0", [blocks]))
    return loops


def _body(kind: str, inner: list[_Loop], names: dict[str, str], joined: bool) -> list[str]:
    lines = list[str]()
    for line in KINDS[kind]:
        text = [line.removeprefix(TERMS).format(**names)]
        lines += _nested(inner, text, joined) if line.startswith(TERMS) else text
    return lines


def _nested(loops: list[_Loop], body: list[str], joined: bool) -> list[str]:
    """Returns the lines of loops around a body, with the tests in their loops, or joined in the
    innermost one."""
    lines, depth = list[str](), 0
    tests = [loop.test for loop in loops if loop.test]
    for k, loop in enumerate(loops):
        for head in loop.heads:
            lines.append("    " * depth + head)
            depth += head.startswith("for")
        test = loop.test if not joined else " and ".join(tests) if k == len(loops) - 1 else ""
        if test:
            lines.append("    " * depth + f"if {test}:")
            depth += 1
    return lines + ["    " * depth + line for line in body]


def _params(elements: dict[str, str]) -> list[str]:
    return [elements[name] for name in ("A", "B", "D", "C")]


def _name(element: str) -> str:
    return element.partition("[")[0]


def _tensor(element: str, sizes: dict[str, str], dtype: str) -> str:
    indices = element.partition("[")[2].removesuffix("]").split(", ")
    shape = ", ".join(s if (s := sizes[i]).isdigit() else f'"{s}"' for i in indices)
    return f'R.Tensor(({shape},), "{dtype}")'
