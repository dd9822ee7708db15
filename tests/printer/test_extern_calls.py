"""Index signatures and costs of calls of external functions: text, checks and locations."""

import pytest

import structir
from structir.errors import DiagnosticError
from structir.ir import structural_equal

HEAD = '@R.function\ndef main(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 4), "float32")):\n'
CALL = '    y = R.call_pure_packed("f", x, w, sinfo_args=R.Tensor((n, 4), "float32"), index={!r})\n'


def source(index: str) -> str:
    return f"{HEAD}    n = T.int64()\n{CALL.format(index)}    return y\n"


@pytest.mark.parametrize(
    "call",
    [
        'R.call_packed("f", x, w, sinfo_args=R.Tensor((n, 4), "float32"), '
        'index="x[i, k], w[k, j] -> y[i, j]")',
        'R.call_pure_packed("f", x, sinfo_args=R.Tensor((n,), "float32"), '
        'index="x[i, k] -> y[i]", cost=2.5)',
        'R.call_dps_packed("f", (x, w), R.Tensor((n, 4), "float32"), '
        'index="x[i, k], w[k, j] -> y[i, j]")',
        'R.sig("a b; b c -> a c", function="f", index="x[i, k], w[k, j] -> y[i, j]")(x, w)',
    ],
)
def test_declarations_round_trip(call: str) -> None:
    pure = "(pure=False)" if "call_packed" in call else ""
    text = f"{HEAD}    n = T.int64()\n    y = {call}\n    return y\n".replace(
        "@R.function", f"@R.function{pure}"
    )
    module = structir.parse(text)
    assert structural_equal(structir.parse(module.script()), module)
    assert "index=" in module.script()
    assert module["main"].bindings()[0].value.attrs["index"].startswith("x[i, k]")


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("x[i, k] -> y[i, k]", "expected 1 tensors as operands, found 2"),
        ("x[i, k], w[k j] -> y[i, j]", "syntax error"),
        ("x[i, k], w[k, j] -> y[i]", "of rank 1, found"),
        ("x[i, k], w[k, j] -> y[i, k]", "axis 1 of y.i, k.: expected 8 by the signature, found 4"),
        ("x[i, k], w[k, j] -> y[i, j], z[i]", "expected 2 results, found 1"),
        ("x[i, k], w[k, j]", "expected `->`"),
    ],
)
def test_declarations_that_do_not_fit(index: str, message: str) -> None:
    with pytest.raises(DiagnosticError, match=message) as caught:
        structir.parse(source(index))
    diagnostic = caught.value.diagnostics[0]
    assert diagnostic.code == "E0661"
    assert diagnostic.span is not None
    assert diagnostic.span.column == CALL.index("{!r}")


def test_a_contraction_that_does_not_fit() -> None:
    with pytest.raises(DiagnosticError, match="mismatch"):
        structir.parse(source("x[i, k], w[j, k] -> y[i, j]"))


def test_options_are_literals() -> None:
    text = source("x[i, k], w[k, j] -> y[i, j]").replace("index='", "cost=x, index='")
    with pytest.raises(DiagnosticError, match="cost: expected a literal, found x"):
        structir.parse(text)
