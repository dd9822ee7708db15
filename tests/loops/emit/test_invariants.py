"""Divisions of indices are computed before the loops that do not change them."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structir
from structir.interpret.kernels import KernelValue, run_kernel
from structir.loops.emit.code import code_of
from structir.runtime.kernel_calls import KernelRunner

HEAD = """
@I.kernel
def f(x: R.Tensor(("n",), "int64"), k_: R.Prim("int64", value="k"), d_: R.Prim("int64", value="d"),
      out: R.Tensor(("n",), "int64")):
"""
EXPRESSIONS = (
    "r // d",
    "r % d",
    "r // d // 3 % 4",
    "(r + k) % d + r // d",
    "k // d",
    "k % (r - 2)",
)


def parsed(body: str):
    lines = "".join([f"    {line}\n" for line in body.strip("\n").splitlines()])
    return structir.parse(HEAD + lines)["f"]


def code(body: str) -> str:
    return code_of(parsed(body), is_generated=True).assembled.text


def innermost(text: str) -> str:
    """Returns the instructions of the last loop."""
    label = re.findall(r"^(body\d+):", text, re.M)[-1]
    return text[text.index(f"\n{label}:") :].partition("\nafter")[0]


ROWS = """
for r in range(k):
    for j in range(16):
        out[j + 16 * r] = x[16 * (r // d % 8) + j]
"""


def test_a_division_of_an_outer_index_precedes_the_inner_loop():
    source = code(ROWS)
    assert "floordiv" in source and "floordiv" not in innermost(source)


@pytest.mark.parametrize("statements", [("q = x[j]", "out[j] = q // d"), ("out[j] = x[j] // d",)])
def test_divisions_of_what_the_loop_changes_stay(statements):
    lines = ["q = k", "for j in range(16):", *[f"    {s}" for s in statements]]
    assert "floordiv" in innermost(code("\n".join(lines)))


def test_equal_divisions_are_computed_once():
    body = """
for r in range(k):
    for j in range(16):
        out[j + 16 * r] = x[16 * (r // d) + j] + x[8 * (r // d) + j]
"""
    assert code(body).count("call i64 @floordiv") == 1


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(EXPRESSIONS), min_size=1, max_size=3),
    st.sampled_from(["", "if r > 1:", "if d > 0:"]),
    st.sampled_from(["4", "k", "r", "k - 3"]),
    st.integers(0, 5),
    st.integers(0, 4),
    st.tuples(st.integers(-4, 4), st.integers(-4, 4)),
)
def test_results_are_those_of_the_interpreter(expressions, condition, stop, k, d, numbers):
    value = " + ".join([f"({e})" for e in expressions])
    nest = ["for r in range(k + 2):", *[condition] * bool(condition), f"for j in range({stop}):"]
    nest += [f"out[(j + 8 * r) % n] += {value} + x[j % n] // d"]
    lines = ["    " * depth + line for depth, line in enumerate(nest)]
    kernel = parsed("\n".join(["a = x[0]", "b = x[1]", *lines]))
    runs = []
    for run in (run_kernel, KernelRunner()):
        x, out = np.array([*numbers, *range(1, 10)], dtype="int64"), np.zeros(11, "int64")
        KernelValue(kernel, run)(x, k, d, out)
        runs.append(out.tolist())
    assert runs[0] == runs[1]
