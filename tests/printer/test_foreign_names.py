"""The call that an error proposes for an op of another library has the meaning of that op."""

import ast

import numpy as np
import pytest

import structir
from structir.errors import ParseError
from structir.printer.parser.foreign_names import FOREIGN_NAMES, foreign_call

X = np.array([[1.0, -2.0, 0.5], [3.0, 4.0, -1.5], [0.25, 2.0, 6.0]], "float32")
Y = np.array([[2.0, 1.5, -3.0], [3.0, 1.0, 2.0], [-0.5, 2.0, 4.0]], "float32")
CALLS = {  # a call of NumPy, PyTorch or JAX, and its value
    "all(x > 0, axis=0)": (X > 0).all(0),
    "amax(x, axis=1, keepdims=True)": X.max(1, keepdims=True),
    "amin(x, dim=0)": X.min(0),
    "any(x > 3)": (X > 3).any(),
    "argwhere(x > 1)": np.argwhere(X > 1),
    "bmm(x, y)": X @ Y,
    "broadcast(x, (2, 3, 3))": np.broadcast_to(X, (2, 3, 3)),
    "cat((x, y), dim=1)": np.concatenate((X, Y), 1),
    "chunk(x, 3, dim=1)": np.split(X, 3, 1),
    "clone(x)": X,
    "concatenate([x, y])": np.concatenate([X, Y]),
    "contiguous(x)": X,
    "cumulative_prod(x, axis=0)": np.cumprod(X, 0),
    "cumulative_sum(x, axis=1)": np.cumsum(X, 1),
    "detach(x)": X,
    "diagonal(x)": np.diagonal(X),
    "div(x, y)": X / Y,
    "dot(x, y)": X @ Y,
    "eq(x, y)": X == Y,
    "expand(x, (2, 3, 3))": np.broadcast_to(X, (2, 3, 3)),
    "fabs(x)": np.abs(X),
    "fmod(x, y)": np.fmod(X, Y),
    "ge(x, y)": X >= Y,
    "gt(x, y)": X > Y,
    "hypot(x, y)": np.hypot(X, Y),
    "identity(3)": np.identity(3, "float32"),
    "inner(x, y)": np.inner(X, Y),
    "int(x)": X.astype("int64"),
    "iota(5)": np.arange(5),
    "isclose(x, y)": np.isclose(X, Y),
    "le(x, y)": X <= Y,
    "linalg.inv(x)": np.linalg.inv(X),
    "linalg.norm(x)": np.linalg.norm(X),
    "linspace(0, 1, 5)": np.linspace(0, 1, 5, dtype="float32"),
    "logaddexp(x, y)": np.logaddexp(X, Y),
    "logsumexp(x, axis=1)": np.log(np.exp(X).sum(1)),
    "lt(x, y)": X < Y,
    "mm(x, y)": X @ Y,
    "moveaxis(x, 0, 1)": X.T,
    "mul(x, y)": X * Y,
    "ne(x, y)": X != Y,
    "neg(x)": -X,
    "nn.linear(x, y)": X @ Y.T,
    "norm(x)": np.linalg.norm(X),
    "numel(x)": np.array(X.size),
    "pow(x, 2)": X**2,
    "ravel(x)": X.ravel(),
    "reciprocal(x)": 1 / X,
    "remainder(x, y)": np.remainder(X, Y),
    "select(x > 0, x, y)": np.where(X > 0, X, Y),
    "stop_gradient(x)": X,
    "sub(x, y)": X - Y,
    "swapaxes(x, 0, 1)": X.T,
    "tensordot(x, y, 1)": np.tensordot(X, Y, 1),
    "trace(x)": np.trace(X),
    "transpose(x, (1, 0))": X.T,
    "unsqueeze(x, 1)": X[:, None],
    "var(x, dim=0, keepdim=True)": X.var(0, keepdims=True),
    "view(x, (-1,))": X.reshape(-1),
}
WITHOUT_VALUE = {  # other operands than tensors x and y, or a fixed example
    *("astensor", "cast", "convert", "float", "index_select", "masked_fill", "nn.embedding"),
}


def test_every_name_has_a_case():
    names = {call.partition("(")[0] for call in CALLS}
    assert names | WITHOUT_VALUE == set(FOREIGN_NAMES)


@pytest.mark.parametrize("call", CALLS)
def test_the_proposed_call_computes_the_op(call):
    info = 'R.Tensor((3, 3), "float32")'
    head = f"@R.function\ndef main(x: {info}, y: {info}):\n    return "
    tree = ast.parse(f"R.{call}", mode="eval").body
    edit = foreign_call(call.partition("(")[0], tree)
    with pytest.raises(ParseError) as caught:
        structir.parse(f"{head}R.{call}\n")
    assert f"help: write `{edit}`" in str(caught.value)
    result = structir.compile(structir.parse(f"{head}{edit}\n"))["main"](X, Y)
    np.testing.assert_allclose(result, CALLS[call], rtol=1e-5, atol=1e-6)
    assert np.shape(result) == np.shape(CALLS[call])
