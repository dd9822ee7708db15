"""Shard functions compute, from their input blocks, the blocks that the program computes."""

import numpy as np
import pytest

import structir
from structir.distributed.shard_function import PartialResults
from structir.errors import DiagnosticError, ShapeMismatchError
from structir.ir import IRModule
from structir.projections.program import leaves, program_of
from tests.ops.test_every_op import OPS
from tests.projections.test_regions_every_op import (
    Trial,
    alike,
    from_examples,
    from_facts,
    some_box,
    tensors,
)


def block(array: np.ndarray, bounds: tuple) -> np.ndarray:
    return np.asarray(array)[tuple(slice(a, b) for a, b in zip(*bounds, strict=True))]


def values_of(program: object, args: list) -> dict:
    """Returns the arrays of a program's parameters by key, and other values by variable."""
    values = {}

    def put(tree: object, value: object) -> None:
        if tree is not None and isinstance(value, tuple):
            for t, v in zip(tree, value, strict=True):
                put(t, v)
        elif tree is not None:
            values[tree] = value

    for tree, value in zip(program.params, args, strict=True):
        put(tree, value)
    return values


def wrong(trial: Trial, seed: int) -> list[str]:
    mod, sizes, args = trial
    try:
        plain = list(tensors(structir.interpret(mod, "main", *args)))
        program = program_of(mod["main"], sizes, parts=True)
    except (DiagnosticError, ShapeMismatchError):
        return []
    keys = list(leaves(program.result))
    if len(keys) != len(plain) or any(0 in p.shape for p in plain):
        return []
    rng = np.random.default_rng(seed)
    known = values_of(program, args) | dict(zip(mod["main"].params, args, strict=True))
    parts, bad = PartialResults(program), []
    for which, key in enumerate(keys):
        regions = program.required_regions({key: some_box(program.shapes[key], rng)})
        part = parts.part(regions, {key: regions[key].bounds})
        inputs = []
        for k, bounds in part.inputs:
            value = known[k] if k in known else k[0].data
            inputs.append(value if bounds is None else block(value, bounds))
        result = structir.interpret(IRModule({"main": part.function}), "main", part.sizes, *inputs)
        expected = block(plain[which], regions[key].bounds)
        if not (result.shape == expected.shape and alike(np.asarray(result), expected)):
            bad.append(f"{mod.script()}\n{regions[key].bounds} of result {which}")
    return bad


@pytest.mark.sampled(40)
@pytest.mark.parametrize("name", sorted(OPS))
@pytest.mark.filterwarnings("ignore")
def test_shard_functions_compute_blocks_of_the_result(name: str) -> None:
    for trial in (*from_facts(name), *from_examples(name)):
        for seed in (1, 2):
            assert not wrong(trial, seed)
