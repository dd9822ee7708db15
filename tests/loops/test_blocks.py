"""Matrix products fused with neighboring ops: row blocks and packed right operands."""

import numpy as np
import pytest

import structir
from structir.targets.cpu.packed_layout import packed
from structir.targets.cpu.products import has_own_products
from tests.runtime.agreement import assert_agree

own_products = pytest.mark.skipif(
    not has_own_products("float32"), reason="no wide fused multiply-add here"
)


def floats(*shape, seed=0, dtype="float32"):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def check(params, lines, shapes, kernels=None, dtype="float32", weights=None):
    """A function of these parameters and constants agrees with the interpreter at several sizes."""
    lines = [*(f'{name} = metadata["{name}"]' for name in weights or {}), *lines]
    body = "\n".join(f"        {line}" for line in lines)
    head = ", ".join(f'{name}: R.Tensor({info}, "{dtype}")' for name, info in params.items())
    module = structir.parse(
        f"@R.function\ndef main({head}):\n    with R.dataflow():\n{body}\n"
        "        R.output(y)\n    return y\n",
        constants=weights or {},
    )
    executable = structir.compile(module)
    for own in shapes:
        given = [floats(*s, seed=k, dtype=dtype) for k, s in enumerate(own)]
        wanted = structir.interpret(module, "main", *given)
        assert_agree(wanted, executable["main"](*given), str(own))
    assert executable.compile_count == 1
    if kernels is not None and has_own_products(dtype):
        assert executable.kernel_count == kernels
    return executable


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_constant_weights_with_bias_and_activation(dtype):
    weights = {"w": floats(40, 70, dtype=dtype), "b": floats(70, dtype=dtype)}
    lines = ["y = R.nn.gelu(R.matmul(x, w) + b)"]
    shapes = [[(b, s, 40)] for b, s in ((2, 5), (0, 3), (1, 1), (3, 65), (1, 200))]
    check({"x": '("b", "s", 40)'}, lines, shapes, 1, dtype, weights)


def test_transposed_constant_weights():
    lines, shapes = ["y = R.nn.relu(R.linear(x, w))"], [[(n, 33)] for n in (0, 1, 9, 130)]
    check({"x": '("n", 33)'}, lines, shapes, weights={"w": floats(50, 33)})


def test_weights_that_come_when_it_runs():
    lines = ["y = R.nn.softmax(R.matmul(x, w) + b)"]
    params = {"x": '("n", "k")', "w": '("k", "m")', "b": '("m",)'}
    shapes = [
        [(n, k), (k, m), (m,)] for n, k, m in ((300, 7, 65), (1, 30, 3), (4, 0, 5), (0, 3, 2))
    ]
    check(params, lines, shapes, kernels=1)


def test_residual_and_norm_on_the_rows_of_a_product():
    lines = ["h = x + R.matmul(z, w)", "y = R.nn.layer_norm(h, gain, shift, axes=[-1])"]
    params = {"z": '("b", "s", 30)', "x": '("b", "s", 24)', "gain": "(24,)", "shift": "(24,)"}
    shapes = [[(p, s, 30), (p, s, 24), (24,), (24,)] for p, s in ((2, 70), (1, 1), (0, 4))]
    check(params, lines, shapes, kernels=1, weights={"w": floats(30, 24)})


def test_positions_that_only_one_row_axis_has():
    params = {"x": '("b", "s", 12)', "p": '("s", 20)'}
    shapes = [[(b, s, 12), (s, 20)] for b, s in ((3, 66), (1, 2), (2, 0))]
    check(params, ["y = R.tanh(R.matmul(x, w) + p)"], shapes, weights={"w": floats(12, 20)})


def test_several_products_stay_apart_where_their_weights_are_shared():
    weights = {"u": floats(16, 32), "v": floats(32, 16, seed=1)}
    lines = ["y = x + R.matmul(R.nn.relu(R.matmul(x, u)), v)"]
    shapes = [[(n, 16)] for n in (1, 64, 131, 0)]
    check({"x": '("n", 16)'}, lines, shapes, kernels=2, weights=weights)


def test_the_product_itself_is_a_result_too():
    lines = ["h = R.matmul(x, w)", "y = (h, R.sum(h, axis=[1]), R.exp(h))"]
    shapes = [[(n, 8)] for n in (1, 70, 0)]
    check({"x": '("n", 8)'}, lines, shapes, weights={"w": floats(8, 50)})


def test_attention_in_one_kernel():
    lines = ["y = R.nn.attention(q, k, v, m)"]
    params = {
        "q": '("b", "s", 3, 8)',
        "k": '("b", "u", 3, 8)',
        "v": '("b", "u", 3, 20)',
        "m": '("b", 1, "s", "u")',
    }
    sizes = [(2, 5, 7), (1, 1, 1), (1, 70, 33), (2, 130, 65), (0, 3, 3), (1, 0, 4)]
    shapes = [[(b, s, 3, 8), (b, u, 3, 8), (b, u, 3, 20), (b, 1, s, u)] for b, s, u in sizes]
    check(params, lines, shapes, kernels=1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_keys_are_transposed_into_panels(dtype):
    lines = ["s = R.matmul(q, R.permute_dims(k, axes=[0, 2, 1]))", "y = R.nn.softmax(s)"]
    params = {"q": '("h", "s", 37)', "k": '("h", "u", 37)'}
    shapes = [[(h, s, 37), (h, u, 37)] for h, s, u in ((2, 9, 100), (1, 70, 48), (1, 1, 17))]
    check(params, lines, shapes, 1, dtype)


def test_weights_of_attention_are_a_result_too():
    lines = ["s = R.matmul(q, R.permute_dims(k, axes=[0, 2, 1]))", "p = R.nn.softmax(s)"]
    lines += ["y = (R.matmul(p, v), p)"]
    params = {"q": '("h", "s", 4)', "k": '("h", "u", 4)', "v": '("h", "u", 5)'}
    shapes = [[(h, s, 4), (h, u, 4), (h, u, 5)] for h, s, u in ((2, 66, 9), (1, 1, 3), (0, 2, 2))]
    check(params, lines, shapes, kernels=1)


def test_a_scale_of_rows_made_before_one_product_is_used_after_it():
    lines = ["s = R.matmul(q, R.permute_dims(k, axes=[0, 2, 1]))", "e = R.exp(s)"]
    lines += ["t = R.sum(e, axis=[2], keepdims=True)", "y = R.matmul(e, v) / t"]
    params = {"q": '("h", "s", 4)', "k": '("h", "u", 4)', "v": '("h", "u", 5)'}
    shapes = [[(h, s, 4), (h, u, 4), (h, u, 5)] for h, s, u in ((2, 66, 9), (1, 1, 3), (3, 130, 2))]
    check(params, lines, shapes, kernels=1)


def test_a_vector_times_constant_weights():
    lines = ["y = R.nn.relu(R.matmul(x, w))"]
    executable = check({"x": "(1, 20)"}, lines, [[(1, 20)]], weights={"w": floats(20, 50)})
    if has_own_products("float32"):
        assert "panels" in executable.source()


@own_products
@pytest.mark.parametrize("columns", [1, 16, 17, 32, 33, 48, 49, 64, 65, 100, 112, 150])
def test_panels_hold_the_matrix_and_zeros(columns):
    matrix = floats(5, columns)
    made = packed(matrix)
    assert made.ctypes.data % 64 == 0 and made.size % 5 == 0
    assert np.isclose(np.abs(made).sum(), np.abs(matrix).sum(), rtol=1e-5)
    assert (made.reshape(-1)[:1] == matrix[0, :1]).all()


SLICED = """
from structir.script import I, R, T

@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor((2, 3, 5), "float32"),
        y: R.Tensor((2, 3, 1), "float32"),
        w: R.Tensor((2, "m", 6), "float32"),
    ):
        m = T.int64()
        rows = R.divide(x, y)
        columns = R.strided_slice(rows, axes=[2], begin=[BEGIN], end=[END], strides=[STEP])
        known = R.match_cast(columns, R.Tensor((2, 3, m), "float32"))
        return R.matmul(known, w)
"""


@pytest.mark.parametrize(("begin", "end", "step"), [(0, 3, 1), (2, 5, 1), (1, 5, 2), (3, 0, -1)])
def test_a_product_of_some_columns_of_a_block(begin, end, step):
    text = SLICED.replace("BEGIN", str(begin)).replace("END", str(end)).replace("STEP", str(step))
    module, width = structir.parse(text), len(range(begin, end, step))
    random = np.random.default_rng(0)
    shapes = [(2, 3, 5), (2, 3, 1), (2, width, 6)]
    x, y, w = (random.uniform(1, 2, shape).astype("float32") for shape in shapes)
    expected = (x / y)[..., begin:end:step] @ w
    np.testing.assert_allclose(structir.compile(module)["main"](x, y, w), expected, rtol=1e-5)
