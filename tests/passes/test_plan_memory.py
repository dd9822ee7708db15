"""Explicit memory: its size, shared storage, and invalid calls."""

import re

import numpy as np
import pytest

import structir
from structir import passes
from structir.errors import ShapeMismatchError, StructInfoError
from structir.ir import IRModule
from structir.passes import PassContext, Statistics, VerifyIR, VerifyResults, pipeline


def chain(count: int, op: str = "R.exp(R.negative({}))") -> IRModule:
    lines = [f"    h{k} = {op.format(f'h{k - 1}' if k else 'x')}" for k in range(count)]
    head = '@R.function\ndef main(x: R.Tensor(("n", 8), "float32")):\n'
    return structir.parse(head + "\n".join(lines) + f"\n    return h{count - 1}\n")


def storages(module: IRModule) -> list[str]:
    return re.findall(r"alloc_storage\(R.prim_value\((.*)\)\)", module.script())


@pytest.mark.parametrize(
    ("count", "in_place", "bytes"), [(3, True, 32), (40, True, 32), (40, False, 64)]
)
def test_a_chain_uses_the_memory_of_one_or_two_values(
    count: int, in_place: bool, bytes: int
) -> None:
    with PassContext([VerifyIR(), VerifyResults()]):
        planned = passes.PlanMemory(in_place=in_place)(chain(count))
    assert storages(planned) == [f"{bytes} * n"]


def test_a_note_reports_the_saved_memory() -> None:
    counting = Statistics()
    with PassContext([counting]):
        passes.PlanMemory()(chain(4))
    ((step, *_),) = counting.rows
    assert step.notes == ["7 values of 224 * n bytes in 32 * n, 6 written over others"]


def test_sizes_without_a_common_unit_have_separate_storage() -> None:
    module = structir.parse("""
@R.function
def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m", 3), "float32")):
    a = R.exp(x)
    b = R.exp(y)
    return (R.sum(a), R.sum(b))
""")
    assert storages(passes.PlanMemory()(module)) == ["4 * n", "12 * m"]


def test_planned_programs_compile() -> None:
    module = chain(3, "R.matmul({}, R.permute_dims(R.ones((8, 8), 'float32')))")
    x = np.linspace(-1, 1, 24, dtype="float32").reshape(3, 8)
    expected = structir.interpret(module, "main", x)
    for text in ("plan_memory", "lower,plan_memory"):
        with PassContext([VerifyIR()]):
            planned = pipeline(text)(module)
        assert "R.memory." in planned.script()
        np.testing.assert_allclose(structir.compile(planned)["main"](x), expected, rtol=1e-5)


def test_kernels_fill_storage() -> None:
    module = chain(3, "R.exp(R.matmul({}, R.ones((8, 8), 'float32')))")
    rewritten = pipeline("lower,plan_memory")(module)
    assert "R.memory.fill(cls." in rewritten.script()
    x = np.ones((3, 8), "float32") / 64
    expected = structir.interpret(module, "main", x)
    np.testing.assert_allclose(structir.interpret(rewritten, "main", x), expected, rtol=1e-5)


def planned(line: str) -> IRModule:
    return structir.parse(f"""
@R.function(pure=False)
def main(x: R.Tensor(("n", 8), "float32")):
    n = T.int64()
    s = R.memory.alloc_storage(R.prim_value(16 * n))
    {line}
    return R.add(a, x)
""")


def test_a_tensor_outside_its_storage_is_an_error() -> None:
    module = planned(
        'a = R.memory.alloc_tensor(s, R.prim_value(0), R.shape([n, 8]), dtype="float32")'
    )
    with pytest.raises(
        ShapeMismatchError, match="expected at most 32 bytes of storage, found 64 at offset 0"
    ):
        structir.interpret(module, "main", np.zeros((2, 8), "float32"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('a = R.memory.call_into(x, x, callee="sum")', "destination: expected"),
        ('a = R.memory.call_into(x, x, callee="nothing")', "callee: expected the name of an op"),
        ('a = R.memory.call_into(x, x, callee="matmul")', "invalid call of matmul"),
        (
            'a = R.memory.alloc_tensor(s, x, R.shape([n, 8]), dtype="float32")',
            "expected storage and a byte offset",
        ),
    ],
)
def test_invalid_memory_calls_are_errors_at_their_location(line: str, message: str) -> None:
    with pytest.raises(StructInfoError, match=message) as error:
        planned(line)
    assert error.value.diagnostics[0].span is not None


def test_a_planned_function_remains_callable() -> None:
    module = structir.parse("""
@R.function
def layer(x: R.Tensor(("n",), "float32")):
    return R.exp(R.exp(x))


@R.function
def main(x: R.Tensor(("n",), "float32")):
    with R.dataflow():
        a = layer(x)
        R.output(a)
    return a
""")
    with PassContext([VerifyIR(), VerifyResults()]):
        rewritten = pipeline("plan_memory,inline")(module)
    assert "force_pure" in rewritten["layer"].script()
    assert "layer(x)" in rewritten["main"].script()


def test_a_cast_value_keeps_its_storage() -> None:
    """A `match_cast` is an alias: the storage of its value is not reused while it is used."""
    module = structir.parse("""
@R.function
def main(x: R.Tensor(("n", 8), "float32")):
    n = T.int64()
    a = R.exp(x)
    b = R.match_cast(a, R.Tensor((n, 8), "float32"))
    c = R.negative(b)
    d = R.sin(c)
    e = R.cos(d)
    return R.add(R.add(e, d), b)
""")
    with PassContext([VerifyIR(), VerifyResults()]):
        planned = passes.PlanMemory()(module)
    assert storages(planned)
    x = np.linspace(-1, 1, 24, dtype="float32").reshape(3, 8)
    expected = structir.interpret(module, "main", x)
    np.testing.assert_array_equal(structir.interpret(planned, "main", x), expected)
