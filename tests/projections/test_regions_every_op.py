"""The index signature of every op covers its dependencies: overwriting elements outside the
required regions changes nothing inside a box of the result.
"""

from collections.abc import Iterator

import numpy as np
import pytest

import structir
from structir.build import BlockBuilder
from structir.errors import DiagnosticError, ShapeMismatchError
from structir.ir import IRModule, Tuple, Var
from structir.ir.dtype import is_float
from structir.projections.boxes import NOTHING, Region, region
from structir.projections.program import leaves, program_of
from tests.ops.calls import called
from tests.ops.test_every_op import OPS, PROGRAMS, SIZES, symbols, value_for
from tests.projections.test_regions import elements


def tensors(value: object) -> Iterator[np.ndarray]:
    """Yields the arrays in a value, in order."""
    if isinstance(value, tuple):
        for field in value:
            yield from tensors(field)
    elif isinstance(value, np.ndarray):
        yield value


def overwritten(value: object, tree: object, regions: dict, number: float) -> object:
    """Returns a value with other numbers outside the regions of its tensors."""
    if isinstance(value, tuple) and not (isinstance(tree, tuple) and tree in regions):
        fields = tree if tree else (None,) * len(value)
        return tuple(overwritten(v, t, regions, number) for v, t in zip(value, fields, strict=True))
    if tree is None or not isinstance(value, np.ndarray):
        return value
    spared = elements(regions.get(tree, NOTHING), value.shape)
    other = np.asarray(number) if is_float(value.dtype.name) else value == 0
    return np.where(spared, value, other.astype(value.dtype))


def some_box(shape: tuple[int, ...], rng: np.random.Generator) -> Region:
    start = [int(rng.integers(0, n)) for n in shape]
    return region(
        start, [int(rng.integers(a + 1, n + 1)) for a, n in zip(start, shape, strict=True)]
    )


def alike(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether numbers are equal, up to the order of summation."""
    if not is_float(a.dtype.name):
        return np.array_equal(a, b)
    return np.allclose(
        a.astype("float64"), b.astype("float64"), rtol=1e-3, atol=1e-3, equal_nan=True
    )


def run_changed(mod: object, args: list, params: tuple, regions: dict) -> object:
    """Runs a program with NaN outside the regions, or with 0.3 if it cannot compute with NaN."""
    for number in (np.nan, 0.3):
        changed = [overwritten(a, t, regions, number) for a, t in zip(args, params, strict=True)]
        try:
            return structir.interpret(mod, "main", *changed)
        except ShapeMismatchError:
            continue
    raise AssertionError("the program does not run with other numbers")


Trial = tuple[IRModule, dict, list]  # a module, its sizes, the arguments of `main`


def from_facts(name: str) -> Iterator[Trial]:
    """Yields the programs of the conformance facts about an op, at two choices of sizes."""
    for case in PROGRAMS[name]:
        mod = structir.parse(case["script"])
        infos = [p.struct_info for p in mod["main"].params]
        names = sorted({s for i in infos for s in symbols(i)}, key=lambda s: s.order)
        for choice in (SIZES[0], SIZES[5]):
            sizes = {s: choice[k % len(choice)] for k, s in enumerate(names)}
            args = [value_for(i, sizes, np.random.default_rng(7)) for i in infos]
            if not any(a is None for a in args):
                yield mod, sizes, args


def from_examples(name: str) -> Iterator[Trial]:
    """Yields the examples of an op."""
    for args, keywords in OPS[name].definition.examples:
        call, values = called(name, *args, **keywords)
        known = dict(learnt(call.args, values))
        builder = BlockBuilder()
        with builder.function("main", list(known)):
            builder.emit_func_output(builder.emit(call))
        yield builder.get(), {}, list(known.values())


def learnt(args: tuple, values: tuple) -> Iterator[tuple[Var, np.ndarray]]:
    """Returns the variables among some arguments, and their values."""
    for arg, value in zip(args, values, strict=True):
        if isinstance(arg, Var):
            yield arg, value
        elif isinstance(arg, Tuple):
            yield from learnt(arg.fields, value)


def failures(trial: Trial) -> Iterator[str]:
    """Yields the changes in a result box if parameters are overwritten outside the regions."""
    mod, sizes, args = trial
    try:
        plain = list(tensors(structir.interpret(mod, "main", *args)))
        program = program_of(mod["main"], sizes)
    except (DiagnosticError, ShapeMismatchError):
        return
    keys = list(leaves(program.result))
    if len(keys) != len(plain) or any(0 in p.shape for p in plain):
        return
    rng = np.random.default_rng(11)
    for which, key in enumerate(keys):
        expected = some_box(program.shapes[key], rng)
        regions = program.required_regions({key: expected})
        result = list(tensors(run_changed(mod, args, program.params, regions)))[which]
        inside = elements(expected, result.shape)
        if not alike(result[inside], plain[which][inside]):
            yield f"{mod.script()}\n{expected.bounds} of result {which} changed"


@pytest.mark.parametrize("name", sorted(OPS))
@pytest.mark.filterwarnings("ignore")
def test_elements_outside_the_regions_are_not_read(name: str) -> None:
    for trial in (*from_facts(name), *from_examples(name)):
        assert not list(failures(trial))
