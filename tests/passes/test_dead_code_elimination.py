"""Elimination of unused bindings: pairs of programs, before and after."""

import pytest

import structir
from structir.ir import structural_equal
from structir.passes import DeadCodeElimination

HEAD = """
@R.function
def main(x: R.Tensor(("n", "m"), "float32"), flag: R.Tensor((), "bool")):
    n = T.int64()
    m = T.int64()
    k = T.int64()
"""
IMPURE = HEAD.replace("@R.function", "@R.function(pure=False)")

PAIRS = {
    "an unread value": (
        "    a = R.exp(x)\n    b = R.log(x)\n    return b\n",
        "    b = R.log(x)\n    return b\n",
    ),
    "a chain of unread values": (
        "    a = R.exp(x)\n    b = R.log(a)\n    c = (a, b)\n    d = c[0]\n    return x\n",
        "    return x\n",
    ),
    "a block that becomes empty": (
        "    with R.dataflow():\n        a = R.exp(x)\n        R.output(a)\n    return x\n",
        "    return x\n",
    ),
    "an unread branch": (
        "    if flag:\n        r = R.exp(x)\n    else:\n        r = x\n    return x\n",
        "    return x\n",
    ),
    "inside a branch": (
        "    if flag:\n        a = R.exp(x)\n        b = R.log(x)\n        r = R.sin(b)\n"
        "    else:\n        r = x\n    return r\n",
        "    if flag:\n        b = R.log(x)\n        r = R.sin(b)\n"
        "    else:\n        r = x\n    return r\n",
    ),
    "inside a closure": (
        '    @R.function\n    def g(y: R.Tensor(("n",), "float32")):\n        a = R.exp(y)\n'
        "        b = R.log(y)\n        return b\n    return g\n",
        '    @R.function\n    def g(y: R.Tensor(("n",), "float32")):\n        b = R.log(y)\n'
        "        return b\n    return g\n",
    ),
}

KEPT = {
    "a cast, which checks and binds": (
        "    a = R.match_cast(x, R.Tensor((n, 4), 'float32'))\n    return x\n"
    ),
    "what a cast casts": (
        "    a = R.exp(x)\n    b = R.match_cast(a, R.Tensor((k, m), 'float32'))\n"
        "    c = R.zeros((k, 2), 'float32')\n    return c\n"
    ),
    "a shape variable that only a StructInfo mentions": (
        "    s = R.call_pure_packed('shape', x, sinfo_args=R.Shape(ndim=1))\n"
        "    a = R.call_pure_packed('fill', x, sinfo_args=R.Tensor(s, 'float32'))\n"
        "    return a\n"
    ),
    "what a closure reads": (
        "    a = R.exp(x)\n    @R.function\n    def g(flag2: R.Tensor((), 'bool')):\n"
        "        b = R.log(a)\n        return b\n    return g\n"
    ),
    "a condition": (
        "    a = R.logical_not(flag)\n    if a:\n        r = R.exp(x)\n"
        "    else:\n        r = x\n    return r\n"
    ),
}


@pytest.mark.parametrize("case", PAIRS)
def test_unused_bindings_are_removed(case: str) -> None:
    before, after = (structir.parse(HEAD + body) for body in PAIRS[case])
    assert structural_equal(DeadCodeElimination()(before), after)


@pytest.mark.parametrize("case", KEPT)
def test_used_bindings_remain(case: str) -> None:
    module = structir.parse(HEAD + KEPT[case])
    assert DeadCodeElimination()(module) is module


def test_an_effect_remains() -> None:
    body = "    a = R.call_packed('print', x, sinfo_args=R.Tuple())\n    return x\n"
    module = structir.parse(IMPURE + body)
    assert DeadCodeElimination()(module) is module


def test_an_effect_in_an_unused_branch_remains() -> None:
    body = (
        "    if flag:\n        a = R.call_packed('print', x, sinfo_args=R.Tuple())\n        r = x\n"
        "    else:\n        r = R.exp(x)\n    return x\n"
    )
    module = structir.parse(IMPURE + body)
    assert DeadCodeElimination()(module) is module
