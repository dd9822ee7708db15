"""The call that an error proposes for an op of another library has the meaning of that op."""

import ast
import re

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError, ParseError
from structir.printer.parser.foreign_names import FOREIGN_NAMES

GENERATOR = np.random.default_rng(0)


def floats(*shape):
    return GENERATOR.uniform(-2, 3, shape).astype("float32")


X, Y, W, U = floats(2, 3), floats(2, 3), floats(2, 3, 4), floats(2, 3, 4)
S = floats(3, 3) + 4 * np.eye(3, dtype="float32")
V, B, P, Q = floats(3), floats(4), floats(4, 3), floats(2, 4, 5)
M, K, I = X > 0.5, np.array([[3, 0, 2], [1, -5, 4]]), np.array([2, 0])  # noqa: E741
T = floats(2, 3, 3)
PARAMETERS = {
    **{"x": X, "y": Y, "w": W, "u": U, "s": S, "v": V, "b": B, "p": P, "q": Q, "m": M, "k": K},
    **{"i": I, "t": T},
}
HEAD = "@R.function\ndef main({}):\n    return ".format(
    ", ".join(f'{n}: R.Tensor({v.shape}, "{v.dtype}")' for n, v in PARAMETERS.items())
)


def norm(x, axis=None, keepdims=False):
    return np.sqrt(np.square(x).sum(axis, keepdims=keepdims))


def log_sum(x, axis=None, keepdims=False):
    return np.log(np.exp(x).sum(axis, keepdims=keepdims))


Z = X + 1
BINARY = {  # the ops of two tensors, with the function of NumPy
    **{"div": np.divide, "eq": np.equal, "fmod": np.fmod, "ge": np.greater_equal},
    **{"gt": np.greater, "hypot": np.hypot, "isclose": np.isclose, "le": np.less_equal},
    **{"logaddexp": np.logaddexp, "lt": np.less, "mul": np.multiply, "ne": np.not_equal},
    **{"remainder": np.remainder, "sub": np.subtract},
}
UNARY = {
    **{"clone": np.copy, "contiguous": np.copy, "detach": np.copy, "stop_gradient": np.copy},
    **{"fabs": np.abs, "neg": np.negative, "ravel": np.ravel, "reciprocal": np.reciprocal},
    **{"int": lambda x: x.astype("int64"), "float": np.copy, "argwhere": np.argwhere},
    **{"numel": np.size},
}
REDUCTIONS = {
    **{"amax": np.max, "amin": np.min, "logsumexp": log_sum, "var": np.var, "norm": norm},
    **{"linalg.norm": norm, "all": np.all, "any": np.any},
}
CASES = {
    **{f"{n}(x, y)": f(X, Y) for n, f in BINARY.items()},
    **{f"{n}(x, y - x)": f(X, Y - X) for n, f in BINARY.items()},
    **{f"{n}(w, u + w)": f(W, U + W) for n, f in BINARY.items()},
    **{f"{n}(x, v)": f(X, V) for n, f in BINARY.items()},
    **{f"{n}(input=x + 1.0, other=y)": f(Z, Y) for n, f in BINARY.items()},
    **{f"{n}(x, x2=0.5)": f(X, np.float32(0.5)) for n, f in BINARY.items()},
    **{f"{n}(x + 1.0)": f(Z) for n, f in UNARY.items()},
    **{f"{n}(input=w)": f(W) for n, f in UNARY.items()},
    **{f"{n}(x)": f(X) for n, f in REDUCTIONS.items()},
    **{f"{n}(a=w - 1.0, axis=1)": f(W - 1, axis=1) for n, f in REDUCTIONS.items()},
    **{
        f"{n}(w, axis=-1, keepdims=True)": f(W, axis=-1, keepdims=True)
        for n, f in REDUCTIONS.items()
    },
    **{f"{n}(x - y, axis=(0, 1))": f(X - Y, axis=(0, 1)) for n, f in REDUCTIONS.items()},
    **{
        f"{n}(input=w, dim=1, keepdim=True)": f(W, axis=1, keepdims=True)
        for n, f in REDUCTIONS.items()
        if n != "var"  # PyTorch divides by one less than the count
    },
    "amax(x, 1)": X.max(1),
    "amin(k, 1)": K.min(1),
    "any(m, 0)": M.any(0),
    "all(k)": K.all(),
    "astensor([1, 2])": np.array([1, 2]),
    "astensor([1.0, 2])": np.array([1, 2], "float32"),
    'astensor([[1, 2]], dtype="float64")': np.array([[1.0, 2.0]]),
    "bmm(w, q)": W @ Q,
    "bmm(w + u, mat2=q)": (W + U) @ Q,
    "broadcast(v, (2, 3))": np.broadcast_to(V, (2, 3)),
    'cast(x, "int8")': X.astype("int8"),
    "cast(x, dtype=int8)": X.astype("int8"),
    "cast(k, np.float64)": K.astype("float64"),
    'convert(x + 1.0, "int32")': Z.astype("int32"),
    "convert(k, float32)": K.astype("float32"),
    "broadcast(x - 1.0, sizes=(2, 2, 3))": np.broadcast_to(X - 1, (2, 2, 3)),
    "cat((x, y), dim=1)": np.concatenate((X, Y), 1),
    "cat(tensors=(x, y), dim=0)": np.concatenate((X, Y)),
    "cat([w, u + w], -1)": np.concatenate((W, U + W), -1),
    "concatenate([x, y])": np.concatenate([X, Y]),
    "concatenate(arrays=(w, u), axis=2)": np.concatenate([W, U], 2),
    "chunk(x, 3, dim=1)": np.split(X, 3, 1),
    "chunk(input=w, chunks=2, dim=-1)": np.split(W, 2, -1),
    "chunk(w, 2)": np.split(W, 2),
    "cumulative_prod(w, axis=2)": np.cumprod(W, 2),
    "cumulative_prod(x - 1.0, axis=0)": np.cumprod(X - 1, 0),
    "cumulative_sum(w, axis=1)": np.cumsum(W, 1),
    "cumulative_sum(v)": np.cumsum(V),
    "diagonal(s)": np.diagonal(S),
    "diagonal(s - x[0, ...])": np.diagonal(S - X[0]),
    "trace(s + 1.0)": np.trace(S + 1),
    "trace(input=s)": np.trace(S),
    "dot(x, s)": X @ S,
    "dot(w, b)": W @ B,
    "dot(v, v)": V @ V,
    "dot(w, b - 1.0)": W @ (B - 1),
    "expand(v, (2, 3))": np.broadcast_to(V, (2, 3)),
    "expand(v, 2, 3)": np.broadcast_to(V, (2, 3)),
    "expand(v + 1.0, size=(4, 2, 3))": np.broadcast_to(V + 1, (4, 2, 3)),
    "float(k)": K.astype("float32"),
    "identity(3)": np.identity(3, "float32"),
    'identity(n=2, dtype="int64")': np.identity(2, "int64"),
    "index_select(x, 1, i)": X[:, I],
    "index_select(input=w, dim=1, index=i)": W[:, I],
    "index_select(x + 1.0, -1, i)": Z[:, I],
    "inner(x, y)": np.inner(X, Y),
    "inner(w, x[0, 0] + b)": np.inner(W, X[0, 0] + B),
    "inner(v, v)": np.inner(V, V),
    "inner(w, u)": np.inner(W, U),
    "iota(5)": np.arange(5),
    'iota("int64", 4)': np.arange(4),
    "iota(5, dtype=int32)": np.arange(5, dtype="int32"),
    "isclose(x, x + 0.001, rtol=1e-2)": np.isclose(X, X + 0.001, rtol=1e-2),
    "isclose(x, x + 0.001, 0.0, atol=1e-2)": np.isclose(X, X + 0.001, 0, 1e-2),
    "linalg.inv(s)": np.linalg.inv(S),
    "linalg.inv(a=s + 1.0)": np.linalg.inv(S + 1),
    "linspace(0, 1, 5)": np.linspace(0, 1, 5, dtype="float32"),
    "linspace(-1.5, stop=2, num=8)": np.linspace(-1.5, 2, 8, dtype="float32"),
    "logsumexp(x * 100.0, 1)": np.logaddexp.reduce(X * 100, 1),
    "masked_fill(x, m, 0.0)": np.where(M, 0, X),
    "masked_fill(x + y, x > y, value=-1.0)": np.where(X > Y, -1, X + Y),
    "masked_fill(input=w, mask=w > 0.0, value=7.0)": np.where(W > 0, 7, W),
    "mm(x, s)": X @ S,
    "mm(input=x, mat2=s - 1.0)": X @ (S - 1),
    "moveaxis(w, 0, 2)": np.moveaxis(W, 0, 2),
    "moveaxis(w + u, -1, 0)": np.moveaxis(W + U, -1, 0),
    "moveaxis(w, (0, 1), (-1, 0))": np.moveaxis(W, (0, 1), (-1, 0)),
    "moveaxis(w, source=1, destination=0)": np.moveaxis(W, 1, 0),
    "nn.embedding(i, s)": S[I],
    "nn.embedding(i + 0, weight=s * 2.0)": (S * 2)[I],
    "nn.linear(x, p)": X @ P.T,
    "nn.linear(x, p, b)": X @ P.T + B,
    "nn.linear(x + 1.0, weight=p, bias=b - 1.0)": Z @ P.T + B - 1,
    "norm(x, 2, 1)": norm(X, 1),
    "linalg.norm(v, 2)": norm(V),
    'norm(x, p="fro", dim=0)': norm(X, 0),
    "pow(x, 2)": X**2,
    "pow(x, exponent=2)": X**2,
    "pow(x - y, 3.0)": (X - Y) ** 3,
    "select(m, x, y)": np.where(M, X, Y),
    "select(x > y, x - y, 0.0)": np.where(X > Y, X - Y, 0),
    "swapaxes(w, 1, 2)": W.swapaxes(1, 2),
    "swapaxes(w - 1.0, 0, -1)": (W - 1).swapaxes(0, -1),
    "swapaxes(a=x, axis1=0, axis2=1)": X.T,
    "tensordot(x, y)": np.tensordot(X, Y),
    "tensordot(x, s, axes=1)": np.tensordot(X, S, 1),
    "tensordot(w, u - w, axes=((0, 2), (0, 2)))": np.tensordot(W, U - W, ((0, 2), (0, 2))),
    "tensordot(w, q, dims=([0, 2], [0, 1]))": np.tensordot(W, Q, ([0, 2], [0, 1])),
    "tensordot(v, b, 0)": np.tensordot(V, B, 0),
    "transpose(x)": X.T,
    "transpose(w)": W.T,
    "transpose(x, 0, 1)": X.T,
    "transpose(w, 1, 2)": W.swapaxes(1, 2),
    "transpose(w, (0, 2, 1))": W.transpose(0, 2, 1),
    "transpose(w + u, axes=[1, -1, 0])": (W + U).transpose(1, -1, 0),
    "transpose(operand=w, permutation=(2, 0, 1))": W.transpose(2, 0, 1),
    "unsqueeze(x, 1)": X[:, None],
    "unsqueeze(w - 1.0, dim=-1)": (W - 1)[..., None],
    "var(x, dim=0, unbiased=False, keepdim=True)": X.var(0, keepdims=True),
    "var(x, axis=1, correction=0)": X.var(1),
    "view(w, 6, 4)": W.reshape(6, 4),
    "view(x, 3, -1)": X.reshape(3, -1),
    "view(x + 1.0, -1)": Z.reshape(-1),
    "view(w, (3, 8))": W.reshape(3, 8),
    "diagonal(t[0, ...])": np.diagonal(T[0]),
}
GENERAL = {  # calls whose arguments have no counterpart, or whose meaning depends on the library
    "amax(x, axis=1, initial=0.0)": "R.max(x, axis=axis, keepdims=keepdims)",
    "cat(*[x, y])": "R.concat(tensors, axis=axis)",
    "chunk(x, 2, dim=1)": "R.split(x, chunks, axis=axis)",
    "concatenate((x, y), axis=None)": "R.concat(tensors, axis=axis)",
    "diagonal(s, 1)": "R.einsum((x,), subscripts)",
    "div(k, 2)": "R.divide(x, y)",
    'div(x, y, rounding_mode="floor")': "R.divide(x, y)",
    "dot(x, q)": "R.matmul(x, y)",
    "expand(v, 2, -1)": "R.broadcast_to(x, sizes)",
    "isclose(x, y, equal_nan=True)": "R.abs(x - y) <= atol + rtol * R.abs(y)",
    "linspace(x, y, 3)": 'start + R.arange(num, dtype="float32") * step',
    "moveaxis(w, 0, 3)": "R.permute_dims(x, axes=axes)",
    "nn.embedding(s, i)": "R.take(weight, x, axis=0)",
    "nn.embedding(i, s, padding_idx=0)": "R.take(weight, x, axis=0)",
    "norm(x, 1, 1)": "R.sqrt(R.sum(R.square(x), axis=axis, keepdims=keepdims))",
    "reciprocal(k)": "1.0 / x",
    "select(x, 0, 1)": "R.where(condition, x, y)",
    "swapaxes(w, axis0=0, axis1=1)": "R.permute_dims(x, axes=axes)",
    "trace(s, offset=1)": "R.einsum((x,), subscripts)",
    "transpose(w, 0, 2, 1)": "R.permute_dims(x, axes=axes)",
    "var(x, dim=1)": "R.variance(x, axis=axis, keepdims=keepdims)",
    "var(x, ddof=1)": "R.variance(x, axis=axis, keepdims=keepdims)",
    "view(x, 5, 5)": "R.reshape(x, sizes)",
}


def edit_of(call):
    with pytest.raises(ParseError) as caught:
        structir.parse(f"{HEAD}R.{call}\n")
    (diagnostic,) = caught.value.diagnostics
    edit = re.fullmatch("write `(.*)`", diagnostic.hint)
    assert edit is not None, diagnostic.hint
    return edit[1]


def test_every_name_has_cases():
    names = [call.partition("(")[0] for call in CASES]
    assert {name for name in FOREIGN_NAMES if names.count(name) < 2} == set()
    assert {*names} == {*FOREIGN_NAMES}


@pytest.mark.parametrize("call", CASES)
def test_the_proposed_call_computes_the_op(call):
    program = structir.parse(f"{HEAD}{edit_of(call)}\n")
    result = structir.interpret(program, "main", *PARAMETERS.values())
    expected = CASES[call]
    values = (
        [(result, expected)]
        if not isinstance(expected, list)
        else list(zip(result, expected, strict=True))
    )
    for value, wanted in values:
        np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5)
        assert np.shape(value) == np.shape(wanted)


@pytest.mark.parametrize("call", GENERAL)
def test_calls_without_a_counterpart_get_the_general_form(call):
    edit = edit_of(call)
    assert edit == GENERAL[call]
    ast.parse(edit, mode="eval")


def test_operands_keep_their_quotes_and_parentheses():
    assert edit_of("isclose(x, y - x)") == "R.abs(x - (y - x)) <= 1e-08 + 1e-05 * R.abs(y - x)"
    assert edit_of("reciprocal(x if True else y)") in ("1.0 / (x if True else y)", "1.0 / x")


@pytest.mark.parametrize("name", FOREIGN_NAMES)
def test_unusual_calls_have_one_error(name):
    for arguments in ("", "x", "x, y", "x, y, x", "x, 0", "x, None", "*x", "**x", "'a', 'b'", "z"):
        with pytest.raises(DiagnosticError) as caught:
            structir.parse(f"{HEAD}R.{name}({arguments})\n")
        assert len(caught.value.diagnostics) == 1
