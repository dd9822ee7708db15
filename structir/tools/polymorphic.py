"""Generates random programs of any dtype and rank: einsums, combinators and ragged ops.

The axes of every value are named, so that most calls are valid by construction.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from structir.analysis.axes import axes_of, tensor
from structir.build import BlockBuilder
from structir.errors import DiagnosticError
from structir.ir.axes import Ragged, RowVar, rows_in
from structir.ir.dims import sym
from structir.ir.dtype import DtypeVar
from structir.ir.expr import Call, Expr, Function, Tuple, Var
from structir.ir.module import IRModule
from structir.ir.op import find_op
from structir.ir.struct_info import TensorStructInfo
from structir.ops.loop import scan
from structir.ops.ragged import has_ragged_axis
from structir.tools.ragged_calls import has_lowered_form

ATTEMPTS = 6
MAX_AXES = 5  # axes and row variables of one value
LETTERS = "abcdefgh"
RAGGED_PROBABILITY = 0.4
UNARY = ("abs", "negative", "square", "nn.relu", "sign")
FLOAT_UNARY = ("exp", "tanh", "nn.softmax", "sigmoid", "cumsum")
BINARY = ("add", "multiply", "subtract", "maximum", "minimum")
REDUCTIONS = ("sum", "max", "min", "mean")


def polymorphic_module(seed: int, size: int) -> IRModule:
    """Returns a module whose functions have row variables, dtype variables and ragged axes.

    `main` comes last, with about `size` bindings. Each row variable and dim is also the shape of a
    parameter of its own, which binds it. The same seed gives the same module.
    """
    rng = Random(seed)
    program = _PolymorphicGenerator(rng, BlockBuilder())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if rng.random() < 0.4:
            program.function("helper", max(1, size // 2))
        program.function("main", size)
    return program.builder.get()


class _PolymorphicGenerator:
    """Generates functions binding by binding."""

    def __init__(self, rng: Random, builder: BlockBuilder) -> None:
        self.rng, self.builder = rng, builder
        self.live: list[Var] = []

    def function(self, name: str, size: int) -> None:
        """Generates a function of about `size` bindings; returns some of its latest values."""
        rng = self.rng
        dims = [sym(letter) for letter in "nmk"]
        rows = [RowVar(letter) for letter in rng.sample("stu", rng.randint(1, 3))]
        elements: list[Any] = [DtypeVar("T"), DtypeVar("T"), DtypeVar("U"), "float32", "float64"]
        elements[1] = elements[0]
        infos = [self.info(dims, rows, rng.choice(elements)) for _ in range(rng.randint(1, 3))]
        if name == "main" and rng.random() < RAGGED_PROBABILITY:
            inner = tuple(rng.sample(dims, rng.choice([0, 0, 1])))
            info = tensor((dims[0], Ragged(rng.choice(["", "len"])), *inner), rng.choice(elements))
            infos += [info] * rng.randint(1, 2)
        used = [axis for info in infos for axis in axes_of(info) or ()]
        variables: list[Any] = [*rows, *dims]
        for axis in variables:  # arguments determine each variable
            if axis in used and tensor((axis,), None).axes not in [info.axes for info in infos]:
                infos.append(tensor((axis,), rng.choice(elements)))
        params = [Var(f"x{k}", info) for k, info in enumerate(infos)]
        self.live = list(params)
        with self.builder.function(name, params):
            for _ in range(size):
                self.statement(_STATEMENTS)
            count = min(rng.randint(1, 3), len(self.live))
            results = rng.sample(self.live[-5:], min(count, len(self.live[-5:])))
            self.builder.emit_func_output(results[0] if count == 1 else Tuple(tuple(results)))

    def info(self, dims: list[Any], rows: list[RowVar], element: Any) -> TensorStructInfo:
        """Returns the StructInfo of a parameter: row variables, dims and sizes in any order."""
        axes: list[Any] = self.rng.choices([*dims, *dims, 1, 2], k=self.rng.randint(0, 2))
        for row in self.rng.sample(rows, min(len(rows), self.rng.choice([0, 1, 1, 2]))):
            axes.insert(self.rng.randint(0, len(axes)), row)
        return tensor(tuple(axes), element)

    def statement(self, kinds: Sequence[tuple[Callable[..., Expr | None], int]]) -> None:
        """Generates one binding; none if all attempts fail."""
        rules, weights = zip(*kinds, strict=True)
        for _ in range(ATTEMPTS):
            (rule,) = self.rng.choices(rules, weights)
            try:
                value = rule(self)
                if value is None:
                    continue
                if type(value) is Call and not runs(value):
                    continue
                var = value if type(value) is Var else self.builder.emit(value)
            except DiagnosticError:
                continue
            axes = self.axes(var)
            if axes is None or len(axes) <= MAX_AXES:
                self.live.append(var)
                return

    # Operands

    def axes(self, var: Any) -> tuple[Any, ...] | None:
        info = var.struct_info
        return axes_of(info) if type(info) is TensorStructInfo else None

    def tensors(self, like: Any = None) -> list[Any]:
        """Returns the values of known axes, with the dtype of another value if it is passed."""
        tensors: list[Any] = [var for var in self.live if self.axes(var) is not None]
        if like is None:
            return tensors
        element = like.struct_info.element
        return [var for var in tensors if var.struct_info.element == element]

    def dense(self, like: Any = None) -> list[Any]:
        return [var for var in self.tensors(like) if not has_ragged_axis(var.struct_info)]

    def pick(self) -> Var:
        """Returns a value, more often a late one."""
        tensors: list[Var] = self.tensors()
        return tensors[max(self.rng.randrange(len(tensors)), self.rng.randrange(len(tensors)))]

    # Calls

    def einsum(self) -> Call | None:
        """Generates an einsum with the names of its operands' axes, of which packs are grouped."""
        rng = self.rng
        first = rng.choice(self.dense() or [None])
        if first is None:
            return None
        same = self.dense(first)
        operands = [first, *rng.choices(same, k=rng.choice([0, 1, 1, 1, 2]))]
        names: dict[Any, str] = {}
        terms = [self.term(self.axes(operand) or (), names) for operand in operands]
        tokens = list(dict.fromkeys(token for term in terms for token in term))
        result = rng.sample(tokens, rng.randint(0, len(tokens)))
        text = "; ".join([" ".join(term) for term in terms])
        name = rng.choice(["einsum", "einsum", "einsum", "tropical"])
        return self.call(name, tuple(operands), f"{text} -> {' '.join(result)}")

    def term(self, axes: Sequence[Any], names: dict[Any, str]) -> list[str]:
        """Returns the subscripts of an operand: equal axes have equal names, with exceptions."""
        tokens: list[str] = []
        position = 0
        while position < len(axes):
            width = 1
            if self.rng.random() < 0.25:
                width = self.rng.randint(1, len(axes) - position)
            group = tuple(axes[position : position + width])
            position += width
            is_row = width > 1 or type(group[0]) is RowVar
            key: Any = group if self.rng.random() < 0.85 else (group, len(names))
            token = names.setdefault((key, is_row), LETTERS[len(names) % len(LETTERS)])
            tokens.append(f"*{token}" if is_row else token)
        return tokens

    def window(self) -> Call | None:
        """Generates windows of an axis, by the offsets of another one."""
        known = [(var, self.axes(var)) for var in self.dense()]
        vectors = [var for var, axes in known if axes and not rows_in(axes[-1:])]
        if not vectors:
            return None
        x = self.rng.choice(vectors)
        w = self.rng.choice([v for v in self.dense(x) if v in vectors])
        inner = "i+k" if self.rng.random() < 0.7 else "2*i+k"
        return self.call("einsum", (x, w), f"*s {inner}; *t k -> *s *t i")

    def unary(self) -> Call:
        """Generates an elementwise op, or one along the last axis."""
        x = self.pick()
        name = self.rng.choice(UNARY if self.rng.random() < 0.6 else FLOAT_UNARY)
        return self.call(name, x)

    def binary(self) -> Call | None:
        """Generates an elementwise op on two values, often of equal axes."""
        x = self.pick()
        same = self.tensors(x)
        equal = [var for var in same if self.axes(var) == self.axes(x)]
        y = self.rng.choice(equal if self.rng.random() < 0.6 else same)
        if self.rng.random() < 0.15:
            return self.call("where", self.builder.emit(self.call("greater", x, y)), x, y)
        return self.call(self.rng.choice(BINARY), *self.rng.sample([x, y], 2))

    def reduction(self) -> Call:
        """Generates a reduction over one axis, counted from the front or the end, or all axes."""
        x = self.pick()
        rank = len(self.axes(x) or ())
        axis = self.rng.choice([None, self.rng.randint(-rank, rank - 1) if rank else None])
        keepdims = self.rng.random() < 0.4
        return self.call(self.rng.choice(REDUCTIONS), x, axis=axis, keepdims=keepdims)

    def layout(self) -> Call:
        """Generates an op that moves, adds or removes axes."""
        x, rng = self.pick(), self.rng
        rank = len(self.axes(x) or ())
        kind = rng.randrange(4)
        if kind == 0:
            return self.call("permute_dims", x)
        if kind == 1:
            return self.call("expand_dims", x, axis=rng.choice([0, -1]))
        if kind == 2:
            return self.call("flip", x, axis=rng.randint(-1, max(0, rank - 1)))
        ones = [v for v in self.tensors() for axis in (0, -1) if (self.axes(v) or (2,))[axis] == 1]
        return self.call("squeeze", rng.choice(ones or [x]), axis=rng.choice([0, -1]))

    def concat(self) -> Call:
        """Generates a concatenation of two or three values of one dtype."""
        x = self.pick()
        same = [v for v in self.tensors(x) if len(self.axes(v) or ()) == len(self.axes(x) or ())]
        others = self.rng.choices(same, k=self.rng.randint(1, 2))
        rank = len(self.axes(x) or ())
        return self.call("concat", (x, *others), axis=self.rng.choice([0, -1, rank // 2]))

    def product(self) -> Call:
        x = self.pick()
        return self.call("matmul", x, self.rng.choice(self.dense(x) or [x]))

    def cast(self) -> Call:
        return self.call("astype", self.pick(), self.rng.choice(["float32", "int32", "float64"]))

    def loop(self) -> Call | None:
        """Generates a map, a vmap, a fold or a scan over the first axis of a value."""
        scanned = [v for v in self.dense() if self.axes(v) and type(self.axes(v)[0]) is not RowVar]  # type: ignore[index]
        if not scanned:
            return None
        x, rng = self.rng.choice(scanned), self.rng
        row = tensor((self.axes(x) or ())[1:], x.struct_info.element)
        kind = rng.choice(["map", "vmap", "reduce", "scan"])
        states = [v for v in self.dense(x) if self.axes(v) == self.axes(x)[1:]]  # type: ignore[index]
        if kind in ("reduce", "scan") and not states:
            return None
        step = Var("step", row)
        params = [Var("state", row), step] if kind in ("reduce", "scan") else [step]
        outer = list(self.live)
        f = self.builder.local_function(params, lambda: self.body(params, row, kind))
        self.live = outer
        if kind == "scan":
            return scan(f, (rng.choice(states),), x)
        return self.call(kind, f, *([rng.choice(states)] if kind == "reduce" else []), x)

    def body(self, params: list[Var], row: TensorStructInfo, kind: str) -> Expr:
        """Generates the result of the function of a combinator."""
        self.live = [*self.live, *params]
        for _ in range(self.rng.randint(1, 2)):
            self.statement(_SIMPLE)
        same = [var for var in self.live if var.struct_info == row]
        if kind in ("map", "vmap"):
            return self.pick()
        after = same[-1]
        return Tuple((after, self.rng.choice(self.dense()))) if kind == "scan" else after

    def conditional(self) -> Var | None:
        """Generates a conditional of two values of one StructInfo."""
        x = self.pick()
        same = [var for var in self.live if var.struct_info == x.struct_info]
        numbers = self.builder.emit(self.call("max", x)), self.builder.emit(self.call("min", x))
        condition = self.builder.emit(self.call("greater", *numbers))
        y = self.rng.choice(same)
        negated = self.call("negative", x)
        return self.builder.if_else(condition, lambda: self.builder.emit(negated), lambda: y)

    def module_call(self) -> Call | None:
        """Generates a call of the helper; arguments are values of equal ranks, as far as known."""
        helpers = [n for n, f in self.builder.functions.items() if isinstance(f, Function)]
        if not helpers:
            return None
        callee: Any = self.builder.global_var(helpers[0])
        chosen = []
        for info in callee.struct_info.params:
            row_count = len(rows_in(axes_of(info) or ()))
            rank = len(axes_of(info) or ()) - row_count
            fitting = [
                v
                for v in self.dense()
                if (
                    len(self.axes(v) or ()) >= rank
                    if row_count
                    else len(self.axes(v) or ()) == rank
                )
            ]
            if not fitting:
                return None
            chosen.append(self.rng.choice(fitting))
        return Call(callee, tuple(chosen))

    def call(self, name: str, *args: Any, **attrs: Any) -> Call:
        """Returns a call of a registered op."""
        call: Call = find_op(name)(*args, **attrs)  # type: ignore[misc]
        return call


def runs(call: Call) -> bool:
    """Returns whether a call has no ragged operand and result, or a lowered form."""
    values = [v for arg in call.args for v in (arg.fields if type(arg) is Tuple else (arg,))]
    is_ragged = any([has_ragged_axis(value.struct_info) for value in [*values, call]])
    return not is_ragged or has_lowered_form(call)


_SIMPLE: list[tuple[Callable[..., Expr | None], int]] = [
    (_PolymorphicGenerator.einsum, 6),
    (_PolymorphicGenerator.unary, 3),
    (_PolymorphicGenerator.binary, 4),
    (_PolymorphicGenerator.reduction, 2),
    (_PolymorphicGenerator.layout, 2),
    (_PolymorphicGenerator.concat, 2),
    (_PolymorphicGenerator.product, 1),
    (_PolymorphicGenerator.cast, 1),
    (_PolymorphicGenerator.window, 1),
]
_STATEMENTS: list[tuple[Callable[..., Expr | None], int]] = [
    *_SIMPLE,
    (_PolymorphicGenerator.loop, 2),
    (_PolymorphicGenerator.conditional, 1),
    (_PolymorphicGenerator.module_call, 2),
]
