"""The order of a chain of products changes its cost and no result."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structir
from structir import passes
from structir.ir.expr import Call

SIZES = st.sampled_from([1, 2, 3, 7])


@st.composite
def chains(draw):
    """Generates the shapes of factors, their association, and which products are transposed."""
    count = draw(st.integers(3, 4))
    sizes = [draw(SIZES) for _ in range(count + 1)]
    shapes = [[sizes[k], sizes[k + 1]] for k in range(count)]
    kind = draw(st.sampled_from(["plain", "vector first", "vector last", "batch", "some batches"]))
    if kind == "vector first":
        shapes[0] = shapes[0][1:]
    elif kind == "vector last":
        shapes[-1] = shapes[-1][:1]
    elif "batch" in kind:
        plain = draw(st.sets(st.integers(0, count - 1))) if kind == "some batches" else set()
        shapes = [
            s if k in plain else [draw(st.sampled_from([1, 5])), *s] for k, s in enumerate(shapes)
        ]
    return [tuple(shape) for shape in shapes], draw(st.integers(0, 2**20)), kind == "plain"


def association(count, seed, may_transpose):
    """Returns the lines that multiply the factors in an order that the seed names."""
    lines = []

    def product(start, end):
        nonlocal seed
        if end - start == 1:
            return f"x{start}"
        middle = start + 1 + seed % (end - start - 1)
        seed //= 3
        left, right = product(start, middle), product(middle, end)
        name = f"y{len(lines)}"
        lines.append(f"{name} = R.matmul({left}, {right})")
        if may_transpose and seed % 2:
            lines.append(f"{name}t = R.permute_dims({name})")
            lines.append(f"{name}b = R.permute_dims({name}t, [1, 0])")
            name += "b"
        return name

    return lines, product(0, count)


@settings(max_examples=60, deadline=None)
@given(chains())
def test_a_reordered_chain_has_the_same_result(chain):
    shapes, seed, may_transpose = chain
    lines, result = association(len(shapes), seed, may_transpose)
    params = ", ".join(f"x{k}: R.Tensor({shape}, 'float64')" for k, shape in enumerate(shapes))
    body = "".join(f"    {line}\n" for line in lines)
    module = structir.parse(f"@R.function\ndef main({params}):\n{body}    return {result}\n")
    args = [np.random.default_rng(k).normal(size=shape) for k, shape in enumerate(shapes)]
    expected = structir.interpret(module, "main", *args)
    reordered = passes.ReorderMatmul()(module)
    np.testing.assert_allclose(structir.interpret(reordered, "main", *args), expected, atol=1e-9)


def products(module):
    calls = [b.value for b in module["main"].bindings() if isinstance(b.value, Call)]
    return [str(call.struct_info.dims) for call in calls if call.op.name == "matmul"]


A, B = "a: R.Tensor((16, 2), 'float32')", "b: R.Tensor((2, 32), 'float32')"
TRANSPOSED = "a: R.Tensor((32, 2), 'float32'), b: R.Tensor((2, 16), 'float32')"


@pytest.mark.parametrize(
    ("params", "body", "cheap"),
    [
        (f"x: R.Tensor((16,), 'float32'), {A}, {B}", "R.matmul(x, R.matmul(a, b))", (2,)),
        (f"{A}, {B}, x: R.Tensor((32,), 'float32')", "R.matmul(R.matmul(a, b), x)", (2,)),
        (
            f"x: R.Tensor((16,), 'float32'), {TRANSPOSED}",
            "R.matmul(x, R.permute_dims(R.matmul(a, b)))",
            (2,),
        ),
        (
            f"x: R.Tensor((4, 16), 'float32'), {TRANSPOSED}",
            "R.matmul(x, R.permute_dims(R.matmul(a, b), [1, 0]))",
            (4, 2),
        ),
        (
            f"x: R.Tensor((5, 1, 16), 'float32'), {A}, {B}",
            "R.matmul(x, R.matmul(a, b))",
            (5, 1, 2),
        ),
        (
            "x: R.Tensor((1, 16), 'float32'), a: R.Tensor((5, 16, 2), 'float32'), "
            "b: R.Tensor((5, 2, 32), 'float32')",
            "R.matmul(x, R.matmul(a, b))",
            (5, 1, 2),
        ),
    ],
)
def test_vectors_batches_and_transposed_weights_are_multiplied_first(params, body, cheap):
    module = structir.parse(f"@R.function\ndef main({params}):\n    y = {body}\n    return y\n")
    assert products(passes.ReorderMatmul()(module))[0] == str(cheap)
