"""Programs on a mesh of workers, in this process: any cuts give the result of the function."""

import numpy as np
import pytest

import structir
from structir.distributed import search
from structir.distributed.layouts import PartialState, ShardedState, WorkerMesh, split_block
from structir.distributed.mesh_program import MeshProgram
from structir.distributed.mesh_schedule import CombineTask, MeshSchedule
from structir.distributed.random_cuts import random_mesh_program
from structir.distributed.work_units import key_name
from structir.errors import StructIRError
from structir.ir import IRModule
from structir.tools.checks import CHECKS
from structir.tools.fuzzing import failures, random_program
from tests.distributed.mesh_programs import (
    ATTENTION,
    CONVOLUTIONS,
    DECODER,
    MLP,
    decoder_arguments,
    floats,
)

PROGRAMS = {
    "mlp": (MLP, [(7, 32), (32, 64), (64, 16)]),
    "attention": (ATTENTION, [(8, 5, 16), (8, 16, 5), (8, 5, 16)]),
    "convolutions": (CONVOLUTIONS, [(2, 4, 9, 12), (8, 4, 3, 3), (4, 8, 3, 3)]),
}


def arguments(name: str) -> tuple[IRModule, list[np.ndarray]]:
    text, shapes = PROGRAMS[name]
    return structir.parse(text), [floats(*s, seed=k) for k, s in enumerate(shapes)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_random_cuts_give_the_result_of_the_function(name: str) -> None:
    module, args = arguments(name)
    expected = structir.interpret(module, "main", *args)
    for seed in range(2):
        program = random_mesh_program(module, "main", args, seed)
        np.testing.assert_allclose(program(*args), expected, rtol=1e-5, atol=1e-6)


def test_random_programs_with_random_cuts() -> None:
    assert "mesh" in CHECKS
    for seed in range(300, 306):
        module = random_program(seed, 8)
        assert not [f"{seed} {f.error}" for f in failures(module, seed, ["mesh"])]


def tensor_parallel(module: IRModule, **options: object) -> MeshProgram:
    return search(module, workers=4, mesh=(4,), stages=1, **options).program


def computed(program: MeshProgram, name: str) -> object:
    plan = program.first_plan
    (state,) = plan.computed_states(next(k for k in plan.unit_of if key_name(k) == name))
    return state


def test_a_column_and_a_row_parallel_product_have_one_reduction() -> None:
    module, args = arguments("mlp")
    program = tensor_parallel(module, sizes={"n": 7}, weights=["v", "w"], memory=6500)
    assert computed(program, "h") == ShardedState(1)
    assert computed(program, "y") == PartialState("sum")
    plan = program.first_plan
    assert set(plan.levels) == {0}  # the values between the products stay where they are
    assert sum(isinstance(t, CombineTask) for t in MeshSchedule(plan).tasks()) == 4
    assert all(b["v"][1][1] - b["v"][0][1] == 16 for b in plan.weight_blocks.values())
    expected = structir.compile(module)["main"](*args)
    np.testing.assert_allclose(program(*args), expected, rtol=1e-5, atol=1e-6)


def test_a_decoder_block_is_cut_by_heads() -> None:
    module, (inputs, weights) = structir.parse(DECODER), decoder_arguments(6)
    cuts = {"q": 1, "mixed": "k", "raised": 2, "narrow": "k"}
    program = tensor_parallel(module, sizes={"n": 6}, weights=list(weights), cuts=cuts)
    assert computed(program, "scores") == computed(program, "heads") == ShardedState(1)
    assert computed(program, "joined") == ShardedState(2)
    held = program.first_plan.weight_blocks[0, (1,)]
    assert (held["wq"], held["wo"]) == (((0, 4), (16, 8)), ((4, 0), (8, 16)))
    assert (held["up"], held["down"]) == (((0, 8), (16, 16)), ((8, 0), (16, 16)))
    expected = structir.compile(module)["main"](*inputs, *weights.values())
    np.testing.assert_allclose(program(*inputs, **weights), expected, rtol=1e-5, atol=1e-6)


def test_a_pipeline_runs_micro_batches_through_its_stages() -> None:
    module, args = arguments("mlp")
    program = search(
        module, workers=2, sizes={"n": 7}, stages=2, mesh=(1,), micro_batches=3
    ).program
    plan = program.first_plan
    assert plan.choices.stages == (0, 0, 1) or plan.choices.stages == (0, 1, 1)
    blocks = [next(iter(b.values())) for b in plan.batches]
    assert [(b[0][0], b[1][0]) for b in blocks] == [(0, 2), (2, 4), (4, 7)]
    expected = structir.compile(module)["main"](*args)
    np.testing.assert_allclose(program(*args), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rows", [0, 1, 3, 9])
def test_a_plan_runs_at_other_sizes(rows: int) -> None:
    module, args = arguments("mlp")
    program = tensor_parallel(module, sizes={"n": 8}, cuts={"h": 0, "y": 0})
    x = floats(rows, 32)
    expected = structir.compile(module)["main"](x, *args[1:])
    np.testing.assert_allclose(program(x, *args[1:]), expected, rtol=1e-5, atol=1e-6)


def test_a_conditional_is_evaluated_on_one_side_only() -> None:
    text = """
@R.function
def main(x: R.Tensor((6, 4), "float32"), c: R.Tensor((), "bool")):
    a = R.exp(x)
    if c:
        b = R.add(a, x)
        out = R.sum(b, axis=[1])
    else:
        d = R.call_pure_packed("nowhere", a, sinfo_args=(R.Tensor((6,), "float32"),))
        out = d
    y = R.multiply(out, out)
    return y
"""
    module, x = structir.parse(text), floats(6, 4)
    program = tensor_parallel(module)
    expected = structir.interpret(module, "main", x, np.array(True))
    np.testing.assert_allclose(program(x, np.array(True)), expected, rtol=1e-5)
    with pytest.raises(StructIRError, match=r"worker \(0,\) of stage 0, level 0.*nowhere"):
        program(x, np.array(False))


def test_nested_blocks_of_two_mesh_axes() -> None:
    mesh = WorkerMesh((2, 3))
    blocks = [split_block(((0, 0), (4, 5)), (0, 1), mesh, at) for at in mesh.workers]
    assert blocks[:3] == [((0, 0), (2, 1)), ((0, 1), (2, 3)), ((0, 3), (2, 5))]
    assert split_block(((0,), (2,)), (0, 0), mesh, (0, 0)) is None


def test_invalid_arguments_have_the_errors_of_local_runs() -> None:
    module, args = arguments("mlp")
    program = tensor_parallel(module, sizes={"n": 8})
    with pytest.raises(StructIRError, match="x: expected dtype float32, found float64"):
        program(args[0].astype("float64"), *args[1:])
    with pytest.raises(StructIRError, match="expected 3 arguments, found 1"):
        program(args[0])
