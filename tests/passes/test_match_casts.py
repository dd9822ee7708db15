"""Passes remove a match_cast only if its value provably has the StructInfo."""

import pytest

import structir
from structir import passes
from structir.errors import DiagnosticWarning
from structir.ir.expr import MatchCast

ASSUMED = """
@R.function(pure=False)
def main(x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")):
    n = T.int64()
    y: R.Tensor((n,), "float32") = R.call_packed("test.same", x, sinfo_args=R.Tensor)
    {}
    w = R.match_cast(z, R.Tensor((n,), "float32"))
    return R.add(w, w)
"""


@pytest.mark.parametrize(
    "line", ["z = y", "z = R.exp(y)", "t = (y, y)\n    z = t[0]", "z = R.add(x, R.exp(y))"]
)
def test_a_match_cast_of_an_assumed_shape_remains(line):
    with pytest.warns(DiagnosticWarning, match="assuming it holds"):
        module = structir.parse(ASSUMED.format(line))
    result = passes.CanonicaliseBindings()(module)
    assert any(isinstance(binding, MatchCast) for binding in result["main"].bindings())
