"""Random programs that fuse a lot, and random programs of all kinds: compiled and interpreted."""

import random

import numpy as np
import pytest

import structir
from structir.errors import StructIRError
from structir.interpret.arguments import random_arguments
from structir.ir import BlockBuilder, TensorStructInfo, Var, dims, find_op
from structir.tools.generate import random_module
from tests.runtime.agreement import assert_agree, copied

DTYPES = ("float32", "float16", "float32", "bfloat16", "float64")
SIZES = ({"a": 3, "b": 17, "c": 40}, {"a": 1, "b": 5, "c": 1}, {"a": 2, "b": 0, "c": 3})


class Graph:
    """A straight program over tensors of three symbolic sizes, grown op by op."""

    def __init__(self, seed, dtype="float32"):
        self.random = random.Random(seed)
        a, b, c = (dims.sym(name) for name in "abc")
        shapes = [(a, b, c), (a, b, c), (c,), (b, c), (a, b, 1)]
        self.params = [
            Var(f"x{k}", TensorStructInfo(shape, dtype)) for k, shape in enumerate(shapes)
        ]
        self.pool = list(self.params)
        self.builder = BlockBuilder()

    def module(self, length):
        with self.builder.function("main", self.params):
            for _ in range(length):
                grow = self.random.choice(
                    [self.unary, self.unary, self.binary, self.binary, self.normal]
                    if self.random.random() < 0.6
                    else [self.reduction, self.moved, self.joined, self.product]
                )
                made = grow(self.random.choice(self.pool[-4:] + self.params[:2]))
                if made is not None:
                    self.pool.append(self.builder.emit(made))
            made = self.pool[len(self.params) :] or self.pool
            results = [made[-1], self.random.choice(made)]
            self.builder.emit_func_output(structir.ir.Tuple(tuple(results)))
        return self.builder.get()

    def unary(self, x):
        return find_op(self.random.choice(["tanh", "sigmoid", "nn.relu", "negative", "abs"]))(x)

    def binary(self, x):
        other = self.random.choice(self.pool)
        name = self.random.choice(["add", "multiply", "subtract", "maximum"])
        try:
            return find_op(name)(x, other)
        except StructIRError:
            return None

    def axes(self, x):
        rank = x.struct_info.ndim
        return self.random.sample(range(rank), self.random.randint(1, rank)) if rank else None

    def reduction(self, x):
        axes = self.axes(x)
        name = self.random.choice(["sum", "max", "mean", "min"])
        keepdims = self.random.random() < 0.7
        return None if axes is None else find_op(name)(x, axis=axes, keepdims=keepdims)

    def normal(self, x):
        axes = self.axes(x)
        if axes is None:
            return None
        mean = self.builder.emit(find_op("mean")(x, axis=axes, keepdims=True))
        centered = self.builder.emit(find_op("subtract")(x, mean))
        squares = self.builder.emit(find_op("multiply")(centered, centered))
        spread = self.builder.emit(find_op("mean")(squares, axis=axes, keepdims=True))
        return find_op("divide")(centered, self.builder.emit(find_op("exp")(spread)))

    def moved(self, x):
        rank = x.struct_info.ndim
        order = self.random.sample(range(rank), rank)
        return find_op("permute_dims")(x, axes=order) if rank > 1 else None

    def joined(self, x):
        rank = x.struct_info.ndim
        if not rank:
            return None
        other = self.builder.emit(find_op("negative")(x))
        return find_op("concat")(structir.ir.Tuple((x, other)), axis=self.random.randrange(rank))

    def product(self, x):
        rank = x.struct_info.ndim
        if rank < 2:
            return None
        order = [*range(rank - 2), rank - 1, rank - 2]
        turned = self.builder.emit(find_op("permute_dims")(x, axes=order))
        scaled = self.builder.emit(find_op("tanh")(turned))
        return find_op("matmul")(x, scaled)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.filterwarnings("ignore")
def test_graphs_that_fuse(seed):
    module = Graph(seed, DTYPES[seed % len(DTYPES)]).module(length=4 + seed % 9)
    executable = structir.compile(module)
    for sizes in SIZES:
        args = random_arguments(module["main"], seed, sizes)
        try:
            wanted = structir.interpret(module, "main", *copied(tuple(args)))
        except StructIRError:  # sizes that do not broadcast: both refuse
            with pytest.raises(StructIRError):
                executable["main"](*args)
            continue
        assert_agree(wanted, executable["main"](*args))


@pytest.mark.sampled(12)
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.filterwarnings("ignore")
def test_programs_of_all_kinds(seed):
    module = random_module(seed, size=10)
    executable = structir.compile(module)
    for k in range(2):
        args = random_arguments(module["main"], seed * 7 + k)
        try:
            wanted = structir.interpret(module, "main", *copied(tuple(args)))
        except (StructIRError, ZeroDivisionError):
            continue
        assert_agree(wanted, executable["main"](*copied(tuple(args))))


@pytest.mark.filterwarnings("ignore")
def test_inputs_that_are_not_dense():
    module = Graph(3).module(length=8)
    executable = structir.compile(module)
    sizes = {"a": 3, "b": 4, "c": 5}
    dense = random_arguments(module["main"], 1, sizes)
    spread = [np.repeat(x, 2, -1)[..., ::2] for x in dense]
    assert_agree(executable["main"](*dense), executable["main"](*spread))
