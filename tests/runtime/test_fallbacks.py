"""`exe.fallbacks` lists the calls that run on the host before the first run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import structir
from structir.interpret import register_extern

HEAD = "from structir.script import I, R, T\n\n\n@I.ir_module\nclass Module:\n"
INTEGERS, FLOATS = np.asarray([3, 1, 2, 3]), np.asarray([3, 1, 2], np.float32)
VECTOR = 'R.Tensor(("n",), "int64")'

BRANCH = """
    @R.function
    def main(x: R.Tensor(("n",), "int64")):
        if R.greater(R.max(x), R.const(2)):
            r = R.sum(R.unique(x, sorted=False))
        else:
            r = R.sum(R.unique(x, axis=0))
        return r
"""
CALLED = """
    @R.function
    def helper(x: R.Tensor(("n",), "int64")) -> R.Tensor((), "int64"):
        r = R.sum(R.unique(R.add(x, x), sorted=False))
        return r

    @R.function
    def main(x: R.Tensor(("n",), "int64")):
        a = Module.helper(x)
        return R.add(a, a)
"""
LOCAL = """
    @R.function
    def main(x: R.Tensor(("n",), "int64")):
        @R.function
        def local(z: R.Tensor(("n",), "int64")) -> R.Tensor((), "int64"):
            r = R.sum(R.unique(z, sorted=False))
            return r
        return R.add(local(x), local(x))
"""
LOOP = """
    @R.function
    def step(h: R.Tensor((), "int64"), x: R.Tensor((), "int64")) -> R.Tuple(
        R.Tensor((), "int64"), R.Tensor((), "int64")
    ):
        s = R.add(h, R.sum(R.unique(R.reshape(x, (1,)), sorted=False)))
        return (s, s)

    @R.function
    def main(x: R.Tensor(("n",), "int64")):
        y = R.scan(Module.step, (R.const(0, "int64"),), x)
        return y
"""
ANY_RANK = """
    @R.function
    def main(x: R.Tensor(("*r", "n"), "int64")):
        return R.sum(R.unique(R.add(x, x), sorted=False))
"""
ANY_RANK_CALLED = """
    @R.function
    def every(x: R.Tensor(("*r", "n"), "int64")) -> R.Tensor((), "int64"):
        return R.sum(R.unique(R.add(x, x), sorted=False))

    @R.function
    def main(x: R.Tensor(("n",), "int64")):
        a = Module.every(x)
        return R.add(a, a)
"""
EXTERNAL = """
    @R.function(pure=False)
    def main(x: R.Tensor(("n",), "int64")):
        y = R.call_packed("tests.fallbacks.same", x, sinfo_args=[R.Tensor(("n",), "int64")])
        return R.add(y, y)
"""
RECURSIVE = """
    @R.function
    def other(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        return Module.halved(x)

    @R.function
    def halved(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        if R.greater(R.max(x), R.const(1.0, "float32")):
            r = Module.other(R.multiply(x, R.const(0.5, "float32")))
        else:
            r = x
        return r

    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        return Module.halved(x)
"""
COMPILED = """
    @R.function
    def step(h: R.Tensor((), "int64"), x: R.Tensor((), "int64")) -> R.Tuple(
        R.Tensor((), "int64"), R.Tensor((), "int64")
    ):
        s = R.add(h, x)
        return (s, s)

    @R.function
    def main(x: R.Tensor(("n",), "int64"), s: R.Shape(("m",))):
        sizes = R.shape_to_tensor(s)
        numbers = R.unique(R.const([2, 1, 2]), sorted=False)
        if R.greater(R.max(x), R.const(2)):
            r = R.sum(numbers)
        else:
            r = R.sum(sizes)
        return (r, R.scan(Module.step, (R.const(0, "int64"),), x))
"""

register_extern("tests.fallbacks.same", lambda x: x)


@pytest.mark.parametrize(
    ("text", "args", "reasons"),
    [
        (BRANCH, [INTEGERS], ["main: unique has no", "main: unique has no"]),
        (CALLED, [INTEGERS], ["helper: unique has no"]),
        (LOCAL, [INTEGERS], ["main: unique has no"]),
        (LOOP, [INTEGERS], ["step: unique has no"]),
        (ANY_RANK, [INTEGERS], ["main: unique has no"]),
        (ANY_RANK_CALLED, [INTEGERS], ["every: add has no", "every: unique has no"]),
        (EXTERNAL, [INTEGERS], ["main: tests.fallbacks.same inspects its arguments"]),
        (RECURSIVE, [FLOATS], ["other: too many nested", "halved: too many nested"]),
        (COMPILED, [INTEGERS, (4,)], []),
    ],
)
def test_calls_without_kernels_are_listed_before_the_first_run(
    text: str, args: list[Any], reasons: list[str]
) -> None:
    executable = structir.compile(structir.parse(HEAD + text))
    listed = executable.fallbacks
    assert len(listed) == len(reasons)
    assert all(why.startswith(start) for why, start in zip(listed, reasons, strict=True))
    assert all("(at <string>:" in why for why in listed)
    profile = executable.profile(*args, repeat=3)
    assert profile.left == executable.fallbacks == listed


def test_functions_of_any_rank_are_listed_by_their_compiled_form() -> None:
    executable = structir.compile(structir.parse(HEAD + ANY_RANK))
    for rank in (1, 2, 3):
        executable["main"](np.ones((2,) * rank, np.int64))
        assert len(executable.fallbacks) == 1


def test_a_loaded_executable_lists_them(tmp_path: Any) -> None:
    executable = structir.compile(structir.parse(HEAD + BRANCH))
    executable.save(tmp_path / "program")
    loaded = structir.load(tmp_path / "program").fallbacks
    assert [why.partition(" (at")[0] for why in loaded] == [
        "main: unique has no kernel for these operands",
        "main: unique has no kernel for these operands",
    ]
