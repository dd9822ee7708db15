"""Tests of defaulting against brute force over small ranks and sizes."""

import random
import warnings
from itertools import product

import pytest

import structir
from structir.errors import DiagnosticError, DiagnosticWarning, StructIRError
from structir.ir.module import IRModule
from structir.solver import explain
from structir.solver.program import defaulting


def parsed(param: str, body: list[str]) -> IRModule:
    lines = "".join([f"    {line}\n" for line in body])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiagnosticWarning)  # annotations that only infer can decide
        return structir.parse(f"@R.function\ndef main(x: {param}):\n{lines}    return y\n")


def tensor(axes: str) -> str:
    return f'R.Tensor({axes}, "float32")'


def chosen_shape(module: IRModule, **options: object) -> tuple[object, ...]:
    return explain(module, close=True, **options).shape("main", "x")


@pytest.mark.parametrize(
    ("param", "value", "shape"),
    [
        (tensor('("*b", 6)'), "R.reshape(x, (24,))", (4, 6)),
        (tensor('("*b", 6)'), "R.reshape(x, (6,))", (6,)),
        (tensor('("*s",)'), "R.cumsum(x, axis=0)", (1,)),
        (tensor('("*s",)'), "R.squeeze(x, 0)", (1,)),
        (tensor('("*s",)'), "R.permute_dims(x, (1, 0))", (1, 1)),
        ('R.Tensor(ndim=2, dtype="float32")', "R.exp(x)", (1, 1)),
        ('R.Tensor(dtype="float32")', "R.exp(x)", ()),
        ('R.Tensor(dtype="float32")', "R.nn.max_pool2d(x, (3, 2))", (1, 1, 3, 2)),
    ],
)
def test_defaulting_chooses_a_smallest_shape(
    param: str, value: str, shape: tuple[int, ...]
) -> None:
    module = parsed(param, [f"y = {value}"])
    assert chosen_shape(module) == shape
    structir.infer(module, close=True)


def test_defaulting_uses_declared_bounds() -> None:
    module = parsed(tensor('("n", "m")'), ['R.require("n >= 4")', "y = R.exp(x)"])
    n, m = chosen_shape(module)
    assert n == 4
    assert str(m) == "m"


def test_defaulting_is_restricted_to_names() -> None:
    module = parsed(tensor('("n", "m", "*s")'), ["y = R.exp(x)"])
    shape = [str(axis) for axis in explain(module, close=["m"]).shape("main", "x")]
    assert shape == ["n", "1", "*s"]
    shape = [str(axis) for axis in explain(module, close=["*s"]).shape("main", "x")]
    assert shape == ["n", "m"]
    assert explain(module, close=["x"]).shape("main", "x") == (1, 1)
    for function in (explain, structir.infer):
        with pytest.raises(DiagnosticError, match=r"found `k`\n.*`\*s`, `m`, `n`, `x`"):
            function(module, close=["m", "k"])


def test_defaulting_reports_what_it_does_not_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defaulting, "MAX_TRIALS", 0)
    module = parsed(tensor('("*b", 6)'), ["y = R.reshape(x, (24,))"])
    assert "x: (*b, 6)   not decided" in str(explain(module, close=True))
    main = structir.infer(module, close=True)["main"]
    assert str(main.params[0].struct_info) == 'R.Tensor(("*b", 6), dtype="float32")'


OPS = [
    "R.cumsum(x, axis=0)",
    "R.squeeze(x, 0)",
    "R.squeeze(x, -1)",
    "R.permute_dims(x)",
    "R.permute_dims(x, (1, 0))",
    "R.expand_dims(x, 1)",
    "R.sum(x, axis=-1)",
    "R.reshape(x, (6,))",
    "R.reshape(x, (2, 3))",
    "R.matmul(x, R.ones((2, 3), 'float32'))",
    "R.add(x, R.ones((2, 1), 'float32'))",
    "R.ewise_fma(x, x, R.ones((2, 3), 'float32'))",
    "R.concat((x, R.ones((1, 2), 'float32')), axis=0)",
    "R.repeat(x, 2, axis=0)",
    "R.nn.max_pool1d(x, [2])",
]


@pytest.mark.parametrize("close", [True, ["w"], "w"])
@pytest.mark.parametrize("value", ["R.add(w, x)", "R.add(x, w)", "R.add(R.add(x, w), x)"])
def test_defaulting_restricts_no_named_size(close: object, value: str) -> None:
    """The size `n` stays open where a defaulted parameter broadcasts with it."""
    module = structir.parse(f"""
@R.function
def main(w: R.Tensor(ndim=1, dtype="float32"), x: R.Tensor(("n",), "float32")):
    return {value}
""")
    main = structir.infer(module, close=close)["main"]
    assert [str(param.struct_info) for param in main.params] == [tensor_text("1"), tensor_text("n")]
    assert str(main.ret_struct_info) == tensor_text("n")


def tensor_text(size: str) -> str:
    return f'R.Tensor(({size},), dtype="float32")'


PARAMS = [
    'R.Tensor(dtype="float32")',
    tensor('("*s",)'),
    tensor('("*s", 2)'),
    tensor('(1, "*s")'),
    'R.Tensor(ndim=2, dtype="float32")',
]
SHAPES = sorted(
    [shape for rank in range(4) for shape in product((1, 2, 3, 6), repeat=rank)], key=len
)


def accepts(shape: tuple[int, ...], param: str, body: list[str]) -> bool:
    """Returns whether a program accepts a shape of its parameter, decided by deduction alone."""
    annotation = f"R.match_cast(x, {param})"
    try:
        parsed(tensor(str(shape)), [f"z = {annotation}", *body])
    except DiagnosticError:
        return False
    return True


@pytest.mark.parametrize("seed", range(20))
def test_defaulting_agrees_with_brute_force(seed: int) -> None:
    """A shape is chosen if a small one exists; it is accepted, and no accepted rank is less."""
    sample = random.Random(seed)
    param = sample.choice(PARAMS)
    values = sample.choices(OPS, k=sample.randint(1, 2))
    body = [f"{name} = {value}" for name, value in zip("wy"[-len(values) :], values, strict=True)]
    solutions = [shape for shape in SHAPES if accepts(shape, param, body)]
    try:
        shape = chosen_shape(parsed(param, body))
    except StructIRError:
        assert not solutions
        return
    assert all(type(size) is int for size in shape) or not solutions
    if solutions:
        assert accepts(shape, param, body)
        assert len(shape) == min(map(len, solutions)) or "add" in "".join(body)
