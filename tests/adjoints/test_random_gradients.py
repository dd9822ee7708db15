"""Gradients of random differentiable programs, in double precision, against differences."""

import warnings
from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from structir import passes
from structir.build import BlockBuilder
from structir.ir import IRModule, TensorStructInfo, Tuple, Var
from structir.ir.dims import sym
from structir.ir.expr import Call, Expr
from structir.script import R
from tests.adjoints.differences import assert_gradient

PROGRAMS = 18
INPUTS = {"x": (3, 4), "w": (4, 4), "b": (4,), "c": (3, 1), "s": (), "pair": ((3, 4), (4,))}
Live = dict[tuple[int, ...], list[Expr]]  # values by their sizes, n being 3


class Writer:
    """Writes smooth programs from values in scope; rows are symbolic."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.builder = BlockBuilder()
        self.live: Live = {}

    def module(self) -> IRModule:
        """A helper and `main`, which calls it."""
        for name in ("helper", "main"):
            params = self.params()
            with self.builder.function(name, params):
                for _ in range(self.rng.randint(2, 4)):
                    self.block(name == "main")
                self.builder.emit_func_output(self.total())
        return self.builder.get()

    def params(self) -> list[Var]:
        n = sym("n")
        sized = {3: n}
        self.live = {}

        def info(shape):
            if any(isinstance(part, tuple) for part in shape):
                return R.Tuple(*map(info, shape))
            return TensorStructInfo(tuple(sized.get(d, d) for d in shape), "float64")

        params = [Var(name, info(shape)) for name, shape in INPUTS.items()]
        params.append(Var("flag", TensorStructInfo((), "bool")))
        for param, shape in zip(params, INPUTS.values(), strict=False):
            if param.name != "pair":
                self.put(shape, param)
        self.pair, self.flag, self.arguments = params[-2], params[-1], params
        return params

    def put(self, shape: tuple[int, ...], value: Expr) -> None:
        self.live.setdefault(shape, []).append(value)

    def any(self, shape: tuple[int, ...]) -> Expr:
        return self.rng.choice(self.live[shape])

    def block(self, calls: bool) -> None:
        """Some bindings: a dataflow block, a branch, a call."""
        kind = self.rng.choice(["dataflow", "dataflow", "branch", *(["call"] * calls)])
        if kind == "branch":
            self.put((3, 4), self.builder.if_else(self.flag, self.side, self.side))
        elif kind == "call":
            helper = self.builder.global_var("helper")
            self.put((), self.builder.emit(Call(helper, tuple(self.arguments))))
        else:
            outer = {shape: list(values) for shape, values in self.live.items()}
            with self.builder.dataflow():
                self.statements()
                value = self.builder.emit_output(self.latest())
            self.live = outer
            self.put((3, 4), value)

    def side(self) -> Expr:
        outer = {shape: list(values) for shape, values in self.live.items()}
        self.statements()
        value = self.latest()
        self.live = outer
        return value

    def statements(self) -> None:
        for _ in range(self.rng.randint(1, 4)):
            shape, make = self.rng.choice(STEPS)
            self.put(shape, self.builder.emit(make(self)))

    def latest(self) -> Expr:
        return self.live[(3, 4)][-1]

    def total(self) -> Expr:
        """A number that depends on the latest values, each part of it bounded."""
        parts = [self.builder.emit(R.mean(R.sin(self.latest()))), *self.live[()][-2:]]
        return self.builder.emit(parts[0] + R.tanh(parts[-1]))


def swapped(halves: Expr) -> Expr:
    return R.concat((halves[1], halves[0]), axis=1)


STEPS: list[tuple[tuple[int, ...], Callable[[Writer], Expr]]] = [
    ((3, 4), lambda w: R.add(w.any((3, 4)), w.any((4,)))),
    ((3, 4), lambda w: R.multiply(w.any((3, 4)), w.any((3, 1)))),
    ((3, 4), lambda w: R.multiply(w.any((3, 4)), w.any(()))),
    ((3, 4), lambda w: R.subtract(w.any((3, 4)), w.any((3, 4)))),
    ((3, 4), lambda w: R.divide(w.any((3, 4)), R.exp(R.tanh(w.any((3, 4)))))),
    ((3, 4), lambda w: R.matmul(w.any((3, 4)), w.any((4, 4)))),
    ((3, 4), lambda w: R.nn.softmax(w.any((3, 4)), axis=-1)),
    ((3, 4), lambda w: R.nn.gelu(w.any((3, 4)))),
    ((3, 4), lambda w: R.nn.layer_norm(w.any((3, 4)), w.any((4,)), w.any((4,)), axes=[-1])),
    ((3, 4), lambda w: R.flip(w.any((3, 4)), axis=1)),
    ((3, 4), lambda w: R.cumsum(w.any((3, 4)), axis=1)),
    ((3, 4), lambda w: swapped(w.builder.emit(R.split(w.any((3, 4)), 2, axis=1)))),
    ((3, 4), lambda w: R.multiply(w.builder.emit(w.pair[0]), w.builder.emit(w.pair[1]))),
    ((3, 4), lambda w: w.builder.emit(Tuple((w.any((3, 4)), w.any((4,)))))[0]),
    ((4, 4), lambda w: R.matmul(R.permute_dims(w.any((3, 4))), w.any((3, 4)))),
    ((4, 4), lambda w: R.nn.silu(w.any((4, 4)))),
    ((4,), lambda w: R.mean(w.any((3, 4)), axis=[0])),
    ((4,), lambda w: R.sin(w.any((4,)))),
    ((3, 1), lambda w: R.sum(w.any((3, 4)), axis=[1], keepdims=True)),
    ((), lambda w: R.mean(R.sigmoid(w.any((3, 4))))),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("chunk", range(6))
def test_random_programs_against_differences(chunk: int) -> None:
    for seed in range(chunk, PROGRAMS, 6):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = Writer(seed).module()
        with passes.PassContext([passes.VerifyIR()]):
            made = passes.Gradient()(module)
        rng = np.random.default_rng(seed)

        def drawn(shape, rng=rng):
            if any(isinstance(part, tuple) for part in shape):
                return tuple(drawn(part) for part in shape)
            return np.asarray(rng.uniform(-1, 1, shape))

        arguments = (*map(drawn, INPUTS.values()), np.asarray(bool(seed % 2)))
        try:
            assert_gradient(module, made, arguments, seed)
        except AssertionError as error:
            error.add_note(f"seed {seed}\n{module.script()}")
            raise
