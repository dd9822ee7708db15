"""Different dims and row variables of one name have different names in one message and text."""

import random
import re
from typing import Any

import numpy as np
import pytest

import structir
from structir.analysis.axes import tensor
from structir.build import BlockBuilder
from structir.errors import DiagnosticError, ShapeMismatchError
from structir.ir import Call, Function, TensorStructInfo, Tuple, Var
from structir.ir.axes import RowVar
from structir.ir.dims import sym
from structir.script import R

N, M = sym("n"), sym("n")
X = Var("x", TensorStructInfo((N, 3), "float32"))


def of(*dims: Any) -> Var:
    return Var("y", TensorStructInfo(dims, "float32"))


@pytest.mark.parametrize(
    "call",
    [
        lambda: R.matmul(X, of(4, M)),
        lambda: R.add(X, of(M, 4)),
        lambda: R.concat(Tuple((X, of(M, 4))), axis=0),
        lambda: R.maximum(of(M, 4), X),
    ],
)
def test_two_dims_of_one_name_in_a_message(call: Any) -> None:
    with pytest.raises(DiagnosticError) as caught:
        call()
    message = str(caught.value)
    assert "n_1" in message and message.count("(n, ") == 1
    assert "R.Tensor((n, 3)" in str(X.struct_info)


def test_two_row_variables_of_one_name_in_a_message() -> None:
    x = Var("x", tensor((RowVar("r"), 3), "float32"))
    y = Var("y", tensor((RowVar("r"), 4), "float32"))
    with pytest.raises(DiagnosticError) as caught:
        R.add(x, y)
    assert '"*r"' in str(caught.value) and '"*r_1"' in str(caught.value)


def test_arguments_and_parameters_of_one_name_in_a_message() -> None:
    builder = BlockBuilder()
    param = of(M, 4)
    with builder.function("helper", [param]):
        builder.emit_func_output(param)
    with pytest.raises(DiagnosticError) as caught, builder.function("main", [X]):
        builder.emit(Call(builder.global_var("helper"), (X,)))
    message = str(caught.value)
    assert "(n, 3)" in message and "the parameter is R.Tensor((n_1, 4)" in message


def test_two_dims_of_one_name_in_a_program() -> None:
    builder, z = BlockBuilder(), of(3, M)
    with builder.function("main", [X, z]):
        builder.emit_func_output(builder.emit(R.matmul(X, z)))
    module = builder.get()
    main = structir.parse(module.script())["main"]
    assert isinstance(main, Function)
    assert str(main.ret_struct_info) == 'R.Tensor((n, n_1), dtype="float32")'
    result = structir.interpret(module, "main", np.ones((2, 3), "f4"), np.ones((3, 5), "f4"))
    assert result.shape == (2, 5)


def test_two_dims_of_one_name_in_a_cast() -> None:
    builder = BlockBuilder()
    with pytest.raises(DiagnosticError) as caught, builder.function("main", [X]):
        builder.match_cast(X, TensorStructInfo((M, 4), "float32"))
    message = str(caught.value)
    assert "(n_1, 4)" in message and "(n, 3)" in message


def test_two_dims_of_one_name_in_an_argument_check() -> None:
    x = of(N + 2 * M, N, M)
    builder = BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(R.exp(x)))
    module = builder.get()
    for run in (structir.compile(module)["main"], lambda a: structir.interpret(module, "main", a)):
        with pytest.raises(ShapeMismatchError) as caught:
            run(np.zeros((3, 4, 5), "f4"))
        assert "expected n + 2 * n_1 = 14 (n = 4, n_1 = 5), found 3" in str(caught.value)


@pytest.mark.parametrize("seed", range(20))
def test_different_dims_never_have_one_name_in_a_message(seed: int) -> None:
    rng = random.Random(seed)
    dims = [sym("n") for _ in range(4)]
    y, z = (of(*rng.sample(dims, 2), rng.randrange(2, 5)) for _ in range(2))
    calls = [
        lambda: R.matmul(y, z),
        lambda: R.add(R.expand_dims(y, axis=0), of(*dims, 7)),
        lambda: R.concat((y, R.sum(z, axis=0)), axis=0),
        lambda: R.reshape(y, (dims[0], 9, dims[1], 5, 11)),
    ]
    with pytest.raises(DiagnosticError) as caught:
        rng.choice(calls)()
        R.matmul(of(dims[0], 3), of(4, dims[1]))
    for shape in re.findall(r"R\.Tensor\(\(([^)]*)\)", str(caught.value)):
        names = [name for name in shape.split(", ") if name.startswith("n")]
        assert len(names) == len(set(names))
