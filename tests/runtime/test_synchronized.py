"""Synchronized loops: parts of a kernel on several threads begin each iteration together."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import structir
from structir.build import BlockBuilder
from structir.errors import DiagnosticError, StructIRError
from structir.frontend.recurrent_kernels import CELLS, recurrent_kernel
from structir.ir.dims import sym
from structir.ir.expr import Constant, Var
from structir.ir.module import IRModule
from structir.ir.struct_info import TensorStructInfo
from structir.loops.schedule.refusal import ScheduleError
from structir.runtime.plans import plan
from structir.runtime.plans.plan import part_of_phases
from structir.script import R
from structir.targets.cpu.tiles import tile_shapes

DIFFUSION = """
@I.kernel
def diffuse(x: R.Tensor((384,), "float32"), u: R.Tensor(("steps", 384), "float32"),
            total: R.Tensor((384,), "float32")):
    row = T.empty((384,), "float32")
    low, high = T.part(384)
    for i in range(low, high):
        total[i] = x[i]
    for t in T.synchronized({steps}):
        for i in range(low, high):
            row[i] = x[i]
            if t != {first}:
                row[i] = 0.5 * u[{before}, max(i - 1, 0)] + 0.5 * u[{before}, min(i + 1, 383)]
        for i in range(low, high):
            u[t, i] = T.tanh(row[i])
            total[i] = total[i] + u[t, i]

@R.function
def main(x: R.Tensor((384,), "float32"), s: R.Shape(["steps"])):
    steps = T.int64()
    return R.call_kernel(diffuse, (x,),
        out_sinfo=(R.Tensor((steps, 384), "float32"), R.Tensor((384,), "float32")))
"""
FORWARDS = DIFFUSION.format(steps="steps", first="0", before="t - 1")
BACKWARDS = DIFFUSION.format(steps="steps - 1, -1, -1", first="steps - 1", before="t + 1")


@pytest.fixture(autouse=True)
def shares_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads share kernels of any time."""
    monkeypatch.setattr(plan, "MIN_SHARED_NANOSECONDS", 1)
    monkeypatch.setattr(plan, "MIN_SHARED_ELEMENTS", 1)
    monkeypatch.setattr(plan, "MIN_PHASE_NANOSECONDS", 0)


def layer(cell: str, hidden: int, backwards: bool, dtype: str, is_constant: bool) -> IRModule:
    """Returns a recurrent layer whose weights are constants or arguments."""
    builder, width = BlockBuilder(), CELLS[cell].gates * hidden
    kernel = builder.kernel(recurrent_kernel(cell, dtype, backwards, hidden=hidden))
    random = np.random.default_rng(0)
    arrays = [random.standard_normal((hidden, width)) / np.sqrt(hidden), random.random(width)]
    weights = [array.astype(dtype) for array in arrays]
    steps, batch = sym("steps"), sym("batch")
    state = TensorStructInfo((batch, hidden), dtype)
    params = [Var("gates", TensorStructInfo((steps, batch, width), dtype))]
    params += [Var(f"{name}_start", state) for name in CELLS[cell].states]
    named = [Var(f"w{k}", TensorStructInfo(w.shape, dtype)) for k, w in enumerate(weights)]
    operands: list[Any] = [*params, *(map(Constant, weights) if is_constant else named)]
    results = (TensorStructInfo((steps, batch, hidden), dtype), *[state for _ in params[1:]])
    with builder.function("main", [*params, *([] if is_constant else named)]):
        call = R.call_kernel(kernel, tuple(operands), out_sinfo=results)
        builder.emit_func_output(builder.emit(call))
    return builder.get()


def arguments(module: IRModule, steps: int, batch: int) -> list[Any]:
    """Returns arguments of a layer."""
    random = np.random.default_rng(1)
    shapes: list[Any] = [p.struct_info for p in module["main"].params]  # type: ignore[union-attr]
    sizes = {"steps": steps, "batch": batch}
    return [
        0.2 * random.standard_normal([sizes.get(str(d), d) for d in info.dims]).astype(info.dtype)
        for info in shapes
    ]


def runs_in_parts(executable: Any) -> bool:
    """Whether threads share a kernel of the last call."""
    (region,) = executable._regions["main"]
    return any(region._bound.latest()[0].chunks)


def same(left: Any, right: Any) -> bool:
    """Whether all results are equal, bit by bit."""
    return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("batch", [1, 5, 11])
@pytest.mark.parametrize("hidden", [64, 130, 160, 300])
@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm", "gru_reset_before"])
def test_recurrent_layers_have_the_same_bits_on_any_number_of_threads(
    cell: str, hidden: int, batch: int
) -> None:
    module = layer(cell, hidden, hidden % 3 == 1, "float32", True)
    args = arguments(module, 3, batch)  # the interpreter takes most of the time
    one = structir.compile(module, num_threads=1)["main"](*args)
    for a, b in zip(one, structir.interpret(module, "main", *args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    for threads in (2, 3):
        many = structir.compile(module, num_threads=threads)["main"]
        assert same(one, many(*args)) and same(one, many(*args))


@pytest.mark.parametrize(("dtype", "is_constant"), [("float64", True), ("float32", False)])
def test_layers_of_float64_and_with_weights_as_arguments(dtype: str, is_constant: bool) -> None:
    module = layer("lstm", 160, False, dtype, is_constant)
    args = arguments(module, 5, 2)
    one = structir.compile(module, num_threads=1)["main"](*args)
    assert same(one, structir.compile(module, num_threads=2)["main"](*args))
    for a, b in zip(one, structir.interpret(module, "main", *args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("text", [FORWARDS, BACKWARDS], ids=["forwards", "backwards"])
@pytest.mark.parametrize("steps", [0, 1, 2, 9])
def test_iterations_read_what_other_parts_wrote_before(text: str, steps: int) -> None:
    module = structir.parse(text)
    x = np.linspace(-1, 1, 384, dtype="float32")
    expected = structir.interpret(module, "main", x, (steps,))
    for threads in (1, 2, 3):
        results = structir.compile(module, num_threads=threads)["main"](x, (steps,))
        for a, b in zip(results, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_threads_share_a_layer_of_one_sequence() -> None:
    module = layer("lstm", 256, False, "float32", True)
    executable = structir.compile(module, num_threads=2)
    executable["main"](*arguments(module, 8, 1))
    assert runs_in_parts(executable)


@pytest.mark.parametrize("hidden", [200, 256])
def test_gates_of_sequences_are_one_product(hidden: int) -> None:
    """Its panels have one end, where few columns are left, and parts share them if they can."""
    kernel = recurrent_kernel("lstm", "float32", False, hidden=hidden)
    assert str(kernel).count("T.column_product(") == CELLS["lstm"].gates + 1
    module = layer("lstm", hidden, False, "float32", True)
    executable = structir.compile(module, num_threads=1)
    profile = executable.profile(*arguments(module, 2, 1))
    packed = {each[1:] for k in profile.kernels for each in k.text.code.panels.values()}  # type: ignore[union-attr]
    if tile_shapes("float32"):
        assert len(packed) == (5 if hidden % 32 else 2)


def test_short_iterations_run_on_one_thread() -> None:
    assert part_of_phases(256, 2, plan.MIN_PHASE_NANOSECONDS) == 128
    assert part_of_phases(256, 3, plan.MIN_PHASE_NANOSECONDS) == 96
    assert part_of_phases(40, 8, plan.MIN_PHASE_NANOSECONDS) == 32
    assert part_of_phases(32, 2, plan.MIN_PHASE_NANOSECONDS) == 0
    assert part_of_phases(256, 2, plan.MIN_PHASE_NANOSECONDS - 1) == 0


def test_concurrent_calls_on_more_threads_than_cores() -> None:
    module = layer("lstm", 128, False, "float32", True)
    args = arguments(module, 20, 1)
    expected = structir.compile(module, num_threads=1)["main"](*args)
    functions = [structir.compile(module, num_threads=n)["main"] for n in (2, 4)]
    wrong: list[int] = []

    def call(k: int) -> None:
        wrong.extend([k for _ in range(60) if not same(functions[k % 2](*args), expected)])

    callers = [threading.Thread(target=call, args=(k,)) for k in range(5)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert wrong == []


def test_an_iteration_that_fails_ends_the_kernel() -> None:
    text = FORWARDS.replace("x[i]\n            if", "x[max(i, 9 * i - t * 1000)]\n            if")
    module = structir.parse(text)
    x = np.ones(384, "float32")
    for threads in (1, 2):
        run = structir.compile(module, num_threads=threads)["main"]
        for _ in range(3):
            with pytest.raises(StructIRError, match="out of range"):
                run(x, (2,))


def test_a_saved_executable_runs_in_parts(tmp_path: Path) -> None:
    module = layer("gru", 160, False, "float32", True)
    args = arguments(module, 6, 1)
    executable = structir.compile(module, num_threads=2)
    expected = executable["main"](*args)
    executable.save(tmp_path / "layer.sir")
    loaded = structir.load(tmp_path / "layer.sir")
    assert same(loaded["main"](*args), expected)
    assert runs_in_parts(loaded)


def test_a_synchronized_loop_prints_as_it_is_written() -> None:
    module = structir.parse(BACKWARDS)
    assert "for t in T.synchronized(steps - 1, -1, -1):" in module.script()
    assert structir.structural_equal(structir.parse(module.script()), module)


BREAK = "            u[t, i] = 1.0\n        break"
WRONG = {
    "no part": ("low, high = T.part(384)", "low, high = 0, 384", "last statement of a kernel"),
    "a step": ("T.synchronized(steps)", "T.synchronized(0, steps, 2)", "up to a size"),
    "a start": ("T.synchronized(steps)", "T.synchronized(1, steps)", "up to a size"),
    "data": ("T.synchronized(steps)", "T.synchronized(T.int64(x[0]))", "up to a size"),
    "break": (
        "            total[i] = total[i] + u[t, i]",
        "            u[t, i] = 1.0\n        break",
        "cannot leave",
    ),
    "variable": ("    for t", "    k = x[0]\n    for t", "`k` is set before"),
    "array": ("total[i] = x[i]\n", "row[i] = x[i]\n", "`row` is set before"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_synchronized_loops(name: str) -> None:
    old, new, message = WRONG[name]
    text = FORWARDS.replace(old, new)
    if name == "variable":
        text = text.replace("total[i] = total[i] + u", "total[i] = k + u")
    with pytest.raises(DiagnosticError, match=message):
        structir.parse(text)


def test_kernels_with_synchronized_loops_are_not_scheduled() -> None:
    kernel: Any = structir.parse(FORWARDS)["diffuse"]
    with pytest.raises(ScheduleError, match="without a synchronized loop"):
        structir.schedule(kernel).split("i", 8)
