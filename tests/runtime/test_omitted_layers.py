"""Kernels of equal layers that are not lowered are those of a complete lowering."""

import random

import numpy as np
import pytest

import structir
from structir.build import BlockBuilder
from structir.ir import Constant, TensorStructInfo, Tuple, Var, dims, find_op
from structir.runtime import extended_kernels
from structir.runtime import program as region_program
from structir.runtime.compiled_region import CompiledRegion
from structir.runtime.program import HostProgram
from tests.runtime.test_equal_layers import WIDTH, Layers


def recipes(module):
    """Returns the kernels of a function, in each form."""
    functions = {name: f for name, f in module.functions.items() if name == "main"}
    program = HostProgram({}, functions=functions)
    assert program.whole(module["main"]) is not None
    (region,) = program.regions
    return [region.recipe(form) for form in (False, True)[: 1 + bool(region.boundary.equal)]]


def described(recipe):
    """Returns a sequence of kernels with numbered buffers, and constants by their memory."""
    numbers = {}

    def of(buffer):
        data = None if buffer.data is None else buffer.data.tobytes()
        key = buffer if buffer.data is None else id(buffer.data)
        number = numbers.setdefault(key, len(numbers))
        root = None if buffer.base is None else of(buffer.base)
        return number, buffer.shape, buffer.dtype, buffer.origin, data, root

    kernels = [
        (
            kernel.text,
            [*map(of, kernel.pointers)],
            [*map(of, kernel.scratch)],
            (kernel.sizes, kernel.range, kernel.origins, kernel.singles, kernel.has_phases),
        )
        for kernel in recipe.kernels
    ]
    boundary = [[*map(of, buffers)] for buffers in (recipe.inputs, recipe.outputs, recipe.results)]
    return kernels, boundary, recipe.operations


class OneChain(Layers):
    """Equal layers of random ops, one after another; `reads` is what the bindings after them read
    beside the last one: nothing, the value before it, that of the first layer, or the parameter."""

    def chain(self, layers, reads="nothing", before=0):
        with self.builder.function("main", self.params):
            x, second = self.params
            values = []
            for number in range(before):
                x = self.layer(x, "width" if number % 2 else "nothing", random.Random(number))
            for _ in range(layers):
                values.append(x)
                x = self.layer(x, "nothing", random.Random(self.seed))
            others = {"last": values[-1], "first": values[1], "parameter": values[0]}
            if reads in others:
                x = self.emit("add", x, others[reads])
            x = self.emit("tanh", x)
            every = values[1:] if reads == "every" else []
            self.builder.emit_func_output(Tuple((x, second, *every)))
        return self.builder.get()


def complete(monkeypatch, module, function):
    """Calls a function of a module with all layers lowered."""
    with monkeypatch.context() as patch:
        patch.setattr(region_program, "equal_layers", lambda bindings: None)
        return function(module)


@pytest.fixture
def count_extended(monkeypatch):
    """Counts the functions whose layers were extended, and those that were lowered again."""
    counts = {True: 0, False: 0}

    def extended(*args):
        whole = extended_kernels.extended(*args)
        counts[whole is not None] += 1
        return whole

    monkeypatch.setattr(region_program, "extended", extended)
    return counts


def is_same(monkeypatch, module):
    expected = complete(monkeypatch, module, recipes)
    actual = recipes(module)
    return [*map(described, actual)] == [*map(described, expected)]


@pytest.mark.parametrize("reads", ["nothing", "last", "first", "parameter", "every"])
def test_kernels_of_layers_are_those_of_a_complete_lowering(monkeypatch, count_extended, reads):
    for seed in range(6):
        module = OneChain(seed, "nothing").chain(7 + seed, reads)
        assert is_same(monkeypatch, module)
    assert count_extended[True] >= (0 if reads in ("first", "every") else 5)


def test_layers_follow_other_bindings(monkeypatch, count_extended):
    for seed in range(4):
        assert is_same(monkeypatch, OneChain(seed, "nothing").chain(8, before=3))
    assert count_extended[True] >= 3


@pytest.mark.parametrize("change", ["attribute", "number", "width", "dtype", "indices", "sharing"])
def test_layers_that_alternate(monkeypatch, change):
    for seed in range(3):
        assert is_same(monkeypatch, Layers(seed, change).module(12))


def test_results_and_profiles(monkeypatch):
    module = OneChain(1, "nothing").chain(9, "last")
    arrays = [np.random.default_rng(1).standard_normal((n, WIDTH), "float32") for n in (5, 3)]

    def run(module):
        executable = structir.compile(module)
        return executable["main"](*arrays), executable.source("main")

    actual, expected = run(module), complete(monkeypatch, module, run)
    for one, other in zip(actual[0], expected[0], strict=True):
        np.testing.assert_array_equal(one, other)
    assert actual[1:] == expected[1:]


def test_parameters_of_layers(monkeypatch, count_extended):
    """Weights may be parameters, in any order."""
    info = TensorStructInfo((WIDTH, WIDTH), "float32")
    x = Var("x", TensorStructInfo((dims.sym("n"), WIDTH), "float32"))
    weights = [Var(f"w{k}", info) for k in range(9)]
    builder = BlockBuilder()
    with builder.function("main", [*reversed(weights), x]):
        for weight in weights:
            x = builder.emit(find_op("tanh")(builder.emit(find_op("matmul")(x, weight))))
        builder.emit_func_output(x)
    assert is_same(monkeypatch, builder.get())
    assert count_extended == {True: 1, False: 0}


def constants_of_layers(arrays):
    x = Var("x", TensorStructInfo((4, WIDTH), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        for array in arrays:
            x = builder.emit(find_op("matmul")(x, Constant(array)))
            x = builder.emit(find_op("tanh")(x))
        builder.emit_func_output(x)
    return builder.get()


def test_layers_that_share_constants(monkeypatch):
    """Constants that some layers share in another order, or that have one element."""
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal((WIDTH, WIDTH), "float32") / 4 for _ in range(9)]
    for array in arrays:
        array.flags.writeable = False
    for chosen in ([0] * 9, [0, 1] * 5, [0, 1, 2, 0, 1, 2, 3, 4, 5, 6], range(9)):
        assert is_same(monkeypatch, constants_of_layers([arrays[k] for k in chosen]))
    scalars = [np.full((1, 1), k, "float32") for k in range(9)]
    builder = BlockBuilder()
    x = Var("x", TensorStructInfo((4, WIDTH), "float32"))
    with builder.function("main", [x]):
        for scalar in scalars:
            x = builder.emit(find_op("add")(x, Constant(scalar)))
            x = builder.emit(find_op("cumsum")(x, axis=1))
        builder.emit_func_output(x)
    assert is_same(monkeypatch, builder.get())


def test_regions_keep_their_fusion_decisions():
    module = OneChain(2, "nothing").chain(9)
    program = HostProgram({})
    assert program.whole(module["main"]) is not None
    region: CompiledRegion = program.regions[0]
    recipe = region.recipe(bool(region.boundary.equal))
    scheduled = recipe.scheduled
    assert scheduled is not None
    assert len(scheduled.kernels) == len(recipe.kernels)


@pytest.mark.parametrize("repeats", [True, False])
def test_files(monkeypatch, tmp_path, repeats):
    """Saves and loads a function with omitted layers, and one whose kernels do not repeat."""
    if not repeats:
        monkeypatch.setattr(region_program, "extended", lambda *args: None)
    module = OneChain(3, "nothing").chain(8)
    arrays = [np.random.default_rng(1).standard_normal((n, WIDTH), "float32") for n in (5, 3)]
    executable = structir.compile(module)
    executable.save(tmp_path / "layers.structir")
    loaded = structir.load(tmp_path / "layers.structir")
    expected = complete(monkeypatch, module, structir.compile)["main"](*arrays)
    for results in (executable["main"](*arrays), loaded["main"](*arrays)):
        for one, other in zip(results, expected, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("is_constant", [False, True])
def test_what_follows_the_layers_reads_weights_of_layers(monkeypatch, is_constant):
    """Tied weights, and weights among the results."""
    info = TensorStructInfo((WIDTH, WIDTH), "float32")
    x = Var("x", TensorStructInfo((dims.sym("n"), WIDTH), "float32"))
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal((WIDTH, WIDTH), "float32") / 4 for _ in range(9)]
    inputs = rng.standard_normal((5, WIDTH), "float32")
    for number in (0, 1, 3, 5, 8):
        weights = [
            Constant(array) if is_constant else Var(f"w{k}", info) for k, array in enumerate(arrays)
        ]
        builder, value, expected = BlockBuilder(), x, inputs
        with builder.function("main", [x, *([] if is_constant else weights)]):
            for weight, array in zip(weights, arrays, strict=True):
                value = builder.emit(
                    find_op("tanh")(builder.emit(find_op("matmul")(value, weight)))
                )
                expected = np.tanh(expected @ array)
            tied = builder.emit(find_op("sigmoid")(find_op("matmul")(value, weights[number])))
            builder.emit_func_output(Tuple((tied, builder.emit(find_op("exp")(weights[number])))))
        module = builder.get()
        assert is_same(monkeypatch, module)
        results = structir.compile(module)["main"](inputs, *([] if is_constant else arrays))
        logits = expected @ arrays[number]
        np.testing.assert_allclose(results[0], 1 / (1 + np.exp(-logits)), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(results[1], np.exp(arrays[number]), rtol=1e-5)
