"""Tests of `structir reduce` and delta debugging."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import structir
from structir.analysis import well_formed
from structir.ir import Call, Function, IRModule, structural_equal
from structir.ir.bodies import bindings_of
from structir.tools.cli import build
from structir.tools.generate import random_module
from structir.tools.reduction import reduce_module, size_of

WRONG_PASS = '''
from structir.ops.elementwise import exp, negative
from structir.ir import Expr
from structir.rewriting.rule import rewrite


@rewrite
def wrong_exp(x: Expr):
    """exp becomes a change of sign."""
    yield exp(x)
    yield negative(x)
'''
PROGRAM = """
@R.function
def other(x: R.Tensor(("n",), "float32")):
    return R.log(x)


@R.function
def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")):
    with R.dataflow():
        a = R.sin(x)
        b = R.add(a, y)
        c = R.exp(b)
        d = R.cos(c)
        R.output(b, d)
    e = R.tanh(d)
    f = R.sin(b)
    return (e, f)
"""


def test_only_the_failing_call_remains(tmp_path: Path) -> None:
    own, program = tmp_path / "wrong_exp.py", tmp_path / "program.py"
    own.write_text(WRONG_PASS)
    program.write_text(PROGRAM)
    command = f"structir opt {{}} --load {own} -p wrong_exp --verify"
    words = ["reduce", str(program), "-c", command, "-o", str(tmp_path / "small.py")]
    result = CliRunner().invoke(build(), words)
    assert result.exit_code == 0, result.output
    small = structir.parse((tmp_path / "small.py").read_text())
    assert size_of(small) == 1, small.script()
    (binding,) = small["main"].bindings()
    assert list(small.functions) == ["main"]
    assert isinstance(binding.value, Call) and "exp" in str(binding.value)


def test_a_succeeding_command_cannot_be_reduced(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    result = CliRunner().invoke(build(), ["reduce", str(program), "-c", "structir check"])
    assert result.exit_code == 2
    assert "nothing to reduce" in result.output


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_shrink_to_one_op(seed: int) -> None:
    """The reduced program is little more than one call, wherever it is in the original."""
    module = random_module(seed, size=10)  # a part of each kind
    calls = [b.value for b in bindings_of(module["main"]) if isinstance(b.value, Call)]
    wanted = str(getattr(calls[len(calls) // 2].op, "name", None))

    def fails(candidate: IRModule) -> bool:
        assert well_formed(candidate)
        functions = [f for f in candidate.functions.values() if isinstance(f, Function)]
        found = [b.value for f in functions for b in bindings_of(f)]
        return any(str(getattr(getattr(v, "op", None), "name", None)) == wanted for v in found)

    small = reduce_module(module, fails)
    assert fails(small)
    assert size_of(small) <= max(6, size_of(module) // 3)
    assert structural_equal(structir.parse(small.script()), small)
