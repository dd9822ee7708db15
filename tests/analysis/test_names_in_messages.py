"""Different dims and row variables of one name have different names in one message and text."""

from typing import Any

import numpy as np
import pytest

import structir
from structir.analysis.axes import tensor
from structir.build import BlockBuilder
from structir.errors import DiagnosticError
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
