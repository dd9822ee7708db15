"""Groups that are equal but for their buffers and axes are written once, and others never share."""

import random

import numpy as np
import pytest

import structir
from structir.ir import Constant, TensorStructInfo, Var, dims, find_op
from structir.loops.kernel.schedule_memo import ScheduleMemo
from structir.runtime.outline import outline
from tests.loops.test_random_graphs import Graph

WIDTH = 24
CHANGES = ("nothing", "attribute", "number", "width", "size", "dtype", "indices", "sharing")


class Layers(Graph):
    """Layers of the same random ops with other constants; in each second one, something changes."""

    def __init__(self, seed, change):
        super().__init__(seed)
        self.seed, self.change = seed, change
        self.arrays = np.random.default_rng(seed)
        n, m = dims.sym("n"), dims.sym("m")
        infos = [TensorStructInfo((size, WIDTH), "float32") for size in (n, m)]
        self.params = [Var(name, info) for name, info in zip("xy", infos, strict=True)]
        self.shared = self.constant(WIDTH, WIDTH)

    def module(self, layers):
        with self.builder.function("main", self.params):
            values = list(self.params)
            for number in range(layers):
                changed = self.change if number % 2 else "nothing"
                which = 1 if changed == "size" else 0
                values[which] = self.layer(values[which], changed, random.Random(self.seed))
            results = structir.ir.Tuple(tuple(values))
            self.builder.emit_func_output(results)
        return self.builder.get()

    def constant(self, *shape):
        return Constant(self.arrays.standard_normal(shape, "float32") / 4)

    def emit(self, name, *args, **attributes):
        return self.builder.emit(find_op(name)(*args, **attributes))

    def layer(self, x, changed, choices):
        start = x
        for _ in range(4):
            x = choices.choice([self.linear, self.norm, self.pick, self.heads])(x, changed, choices)
        return self.emit("add", start, x)

    def linear(self, x, changed, choices):
        width = 2 * WIDTH if changed == "width" else WIDTH
        w, b = self.constant(WIDTH, width), self.constant(width)
        if changed == "sharing":
            w = self.shared
        x = self.emit("add", self.emit("matmul", x, w), b)
        x = self.emit(choices.choice(["nn.relu", "tanh"]), x)
        if changed == "width":
            x = self.emit("matmul", x, self.constant(width, WIDTH))
        scale = 0.5 if changed == "number" else 0.25
        return self.emit("multiply", x, Constant(np.float32(scale)))

    def norm(self, x, changed, choices):
        wide = self.emit("astype", x, "float64") if changed == "dtype" else x
        mean = self.emit("mean", wide, axis=[1], keepdims=True)
        name = "maximum" if changed == "attribute" else "subtract"
        wide = self.emit(name, wide, mean)
        return self.emit("astype", wide, "float32") if changed == "dtype" else wide

    def pick(self, x, changed, choices):
        order = np.arange(WIDTH)[:: -1 if changed == "indices" else 1].copy()
        return self.emit("take", x, Constant(order), axis=1)

    def heads(self, x, changed, choices):
        parts = self.emit("reshape", x, (x.struct_info.dims[0], 4, WIDTH // 4))
        axis = 1 if changed == "attribute" else 2
        parts = self.emit("nn.softmax", parts, axis=axis)
        return self.emit("reshape", parts, x.struct_info.dims)


def described(module):
    """Returns all kernels with numbered buffers."""
    numbers = {}

    def of(buffer):
        data = None if buffer.data is None else buffer.data.tobytes()
        number = numbers.setdefault(buffer, len(numbers))
        root = None if buffer.base is None else of(buffer.root)
        return number, buffer.shape, buffer.dtype, buffer.origin, data, root

    return [
        (
            kernel.text.text,
            [of(b) for b in kernel.text.pointers],
            [of(b) for b in kernel.text.scratch],
            (kernel.text.sizes, kernel.text.range, kernel.text.origins, kernel.text.singles),
        )
        for kernel in outline(module, "main").kernels
    ]


def results(module):
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal((rows, WIDTH), "float32") for rows in (5, 3)]
    return structir.compile(module)["main"](*arrays)


@pytest.mark.parametrize("change", CHANGES)
def test_kernels_are_those_that_are_written_one_by_one(monkeypatch, change):
    for seed in range(4):
        module = Layers(seed, change).module(4)
        once, actual = described(module), results(module)
        with monkeypatch.context() as patch:
            patch.setattr(ScheduleMemo, "schedules", lambda self, schedules: schedules)
            assert once == described(module)
            for one, other in zip(actual, results(module), strict=True):
                np.testing.assert_array_equal(one, other)


def test_random_programs_have_the_kernels_that_are_written_one_by_one(monkeypatch):
    for seed in range(12):
        module = Graph(seed).module(40)
        once = described(module)
        with monkeypatch.context() as patch:
            patch.setattr(ScheduleMemo, "schedules", lambda self, schedules: schedules)
            assert once == described(module)


def written(monkeypatch, layers):
    """Returns the number of groups that a schedule writes."""
    count = 0
    own = ScheduleMemo._once

    def counted(self, schedule):
        def write(group):
            nonlocal count
            count += 1
            return schedule(group)

        return own(self, write)

    with monkeypatch.context() as patch:
        patch.setattr(ScheduleMemo, "_once", counted)
        outline(Layers(1, "nothing").module(layers), "main")
    return count


def test_groups_of_further_equal_layers_are_not_written_again(monkeypatch):
    assert written(monkeypatch, 12) == written(monkeypatch, 4)
