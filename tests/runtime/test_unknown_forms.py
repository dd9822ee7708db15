"""Functions whose parameters have unknown ranks, sizes and dtypes: compiled at those of a call."""

from typing import Any

import numpy as np
import pytest

import structir
from structir.errors import StructIRError
from tests.runtime.agreement import assert_agree

MODULE = structir.parse("""
@R.function
def chain(x: R.Tensor, y: R.Tensor("float32")):
    a = R.add(R.astype(x, "float32"), y)
    return a, R.sum(R.exp(a), axis=[-1])

@R.function
def cast(x: R.Tensor):
    n = T.int64()
    m = T.int64()
    y = R.match_cast(x, R.Tensor((n, m), "float32"))
    return R.sum(R.multiply(y, y), axis=1)

@R.function
def branch(c: R.Tensor((), "bool"), x: R.Tensor):
    if c:
        y = R.exp(x)
    else:
        y = R.negative(x)
    return R.add(y, x)

@R.function
def pair(t: R.Tuple(R.Tensor, R.Tensor(ndim=2, dtype="float32"))) -> R.Tensor:
    a, b = t
    return chain(R.matmul(a, b), b)[0]
""")
X = np.arange(6.0).reshape(2, 3)
EXECUTABLE = structir.compile(MODULE)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("chain", (X, np.float32(1))),
        ("chain", (X.astype("int8"), np.ones((4, 2, 3), "float32"))),
        ("cast", (X.astype("float32"),)),
        ("branch", (np.True_, X)),
        ("branch", (np.False_, X[0].astype("float16"))),
    ],
)
def test_calls_of_any_form_are_compiled(name: str, args: tuple[Any, ...]) -> None:
    assert_agree(structir.interpret(MODULE, name, *args), EXECUTABLE[name](*args), name)
    assert EXECUTABLE.fallbacks == () and len(EXECUTABLE.plans(name)) > 0


def test_tuples_of_any_form() -> None:
    single = X.astype("float32")
    wanted = structir.interpret(MODULE, "pair", (single[:, :2], single))
    assert_agree(wanted, EXECUTABLE["pair"]((single[:, :2], single)), "pair")


@pytest.mark.parametrize(
    ("name", "args"), [("cast", (X,)), ("cast", (X[0],)), ("pair", ((X.astype("float32"),) * 2,))]
)
def test_wrong_calls_have_the_errors_of_the_interpreter(name: str, args: tuple[Any, ...]) -> None:
    with pytest.raises(StructIRError) as wanted:
        structir.interpret(MODULE, name, *args)
    with pytest.raises(StructIRError) as actual:
        EXECUTABLE[name](*args)
    assert str(actual.value) == str(wanted.value)
