"""Generates random well-formed programs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from structir.analysis.axes import tensor as tensor_of
from structir.analysis.deduction import deduce
from structir.build import BlockBuilder
from structir.errors import DiagnosticError, StructIRError
from structir.interpret.arguments import random_arguments, random_values
from structir.ir.axes import Labelled, RowVar
from structir.ir.dims import Dim, sym
from structir.ir.expr import (
    Call,
    Constant,
    DataflowVar,
    Expr,
    Function,
    GlobalVar,
    PrimValue,
    ShapeExpr,
    Tuple,
    Var,
    VarBinding,
)
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.requirements import cast_of, condition
from structir.ir.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.ops.loop import scan
from structir.ops.ragged import has_ragged_axis
from structir.tools.calls import CallGenerator
from structir.tools.coarsening import coarsened
from structir.tools.kernels import KernelGenerator, fits_kernels
from structir.tools.ragged_calls import RaggedCallGenerator

__all__ = ["random_arguments", "random_module"]

SCALAR_BOOL = TensorStructInfo((), "bool")
MAX_KERNELS = 2  # per module: each takes about 0.1 s to compile
ANONYMOUS_SIZE = '"_"'  # a size as a value; annotations of parameters bind it to a name
FIELD_NAMES = ("w", "in", "x.y")  # of tuples: the last two have to be quoted
RAGGED_PROBABILITY = 0.08  # of a module with ragged tensors
MAX_DEPTH = 2  # nesting depth of functions and branches


def random_module(seed: int, size: int = 8, generator: CallGenerator | None = None) -> IRModule:
    """Returns a well-formed module of one to three functions, `main` last, with about `size`
    bindings each.

    It contains calls of any registered op, dataflow and plain blocks, constants, shapes, tuples,
    branches, closures, scans, recursion, kernels, calls between functions, match_casts, conditions
    on sizes, variables whose StructInfo is coarser than that of their value, row variables, labels
    of axes, and in some modules ragged tensors. The same seed gives the same module, given the
    same registered ops.
    """
    rng = Random(seed)
    program = _ProgramGenerator(rng, generator or CallGenerator(rng), size)
    program.has_ragged = Random(f"ragged {seed}").random() < RAGGED_PROBABILITY
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(rng.choice([0, 0, 1, 2])):
            add = program.recursion if rng.random() < 0.15 else program.function
            add(f"helper_{number}")
        program.function("main")
    return program.builder.get()


class _ProgramGenerator:
    """Generates functions binding by binding, from the values in scope."""

    def __init__(self, rng: Random, generator: CallGenerator, size: int) -> None:
        self.rng = rng
        self.calls = generator
        self.size = size
        self.builder = BlockBuilder()
        self.live: list[Var] = []
        self.ragged: list[Var] = []  # values with a ragged axis
        self.has_ragged = False
        self.ragged_calls = RaggedCallGenerator(rng, generator)
        self.sizes: list[Dim] = []
        self.rows: list[RowVar] = []  # of the parameters
        self.depth = 0
        self.in_dataflow = False
        self.kernels = 0
        self.unnamed = 0

    # Functions

    def function(self, name: str) -> None:
        """Generates a function of the module."""
        dims = [sym(name) for name in "nmk"[: self.rng.randint(1, 3)]]
        self.sizes = [*dims, 1, 2]
        self.rows = [RowVar("s"), RowVar("r")] if self.rng.random() < 0.15 else []
        params = [Var(f"x{i}", self.tensor(dims)) for i in range(self.rng.randint(1, 3))]
        params += [Var(f"d{i}", TensorStructInfo((dim,), "float32")) for i, dim in enumerate(dims)]
        params += self.rng.sample(self.non_tensor_params(dims), self.rng.randint(0, 2))
        self.live = list(params)
        self.ragged = []
        if self.has_ragged and name == "main":
            self.ragged = self.ragged_calls.params(dims)
            params += self.ragged
        with self.builder.function(name, params):
            self.bindings(self.size)
            self.live = [var for var in self.live if _is_data(var.struct_info)]
            self.builder.emit_func_output(self.result())

    def recursion(self, name: str) -> None:
        """Generates a recursive function with two flags; each call clears one."""
        dims = [sym(name) for name in "nm"]
        self.sizes, self.rows = [*dims, 1, 2], []
        flags = [Var("again", SCALAR_BOOL), Var("then", SCALAR_BOOL)]
        state = Var("state", self.tensor(dims))
        params = [*flags, state, Var("d0", TensorStructInfo((dims[0],), "float32"))]
        params.append(Var("d1", TensorStructInfo((dims[1],), "float32")))
        self.live = params[2:]
        info = FuncStructInfo(tuple([p.struct_info for p in params]), state.struct_info)
        itself = GlobalVar(name, info)
        last = Constant(np.asarray(False))

        def recurse() -> Expr:
            self.bindings(self.size // 2)
            step = self.pick(state.struct_info)
            return self.builder.emit(Call(itself, (flags[1], last, step, *params[3:])))

        def end() -> Expr:
            return self.nested(lambda: self.pick(state.struct_info))

        with self.builder.function(name, params, ret=state.struct_info):
            outer = self.live
            var = self.builder.if_else(flags[0], lambda: self.nested(recurse), end)
            self.live = [*outer, var]
            self.builder.emit_func_output(var)

    def tensor(self, dims: list[Any]) -> TensorStructInfo:
        """Returns the StructInfo of a tensor parameter."""
        choices: list[Dim] = [*dims, *dims, 1, 2, dims[0] + 1, dims[0] * dims[-1]]
        shape = [self.rng.choice(choices) for _ in range(self.rng.choice([0, 1, 2, 2, 3]))]
        axes: list[Any] = list(shape)
        if self.rng.random() < 0.1:
            axes = [Labelled(size, f"axis{k}") for k, size in enumerate(shape)]
        if self.rows and self.rng.random() < 0.4:
            axes.insert(0, self.rng.choice(self.rows))
        return tensor_of(tuple(axes), self.rng.choice(self.calls.dtypes))

    def non_tensor_params(self, dims: list[Any]) -> list[Var]:
        """Generates parameters of other classes, and a tensor of unknown shape."""
        fields = (self.tensor(dims), TensorStructInfo((dims[0],), "float32"))
        pair = TupleStructInfo(fields, ("any", "lambda"))
        unknown = TensorStructInfo(dtype="float32", ndim=self.rng.randint(0, 2))
        return [
            Var("flag", SCALAR_BOOL),
            Var("pair", pair),
            Var("shape", ShapeStructInfo((dims[0], dims[-1] + 1))),
            Var("unknown", unknown),
            Var("number", PrimStructInfo("int64")),
        ]

    def result(self) -> Expr:
        """Returns one of the latest values, or a tuple of several."""
        count = self.rng.randint(1, 3)
        latest = self.live[-6:] + ([] if self.depth else self.ragged[-2:])
        chosen = self.rng.sample(latest, min(count, len(latest)))
        return chosen[0] if len(chosen) == 1 else Tuple(tuple(chosen))

    # Bindings

    def bindings(self, count: int) -> None:
        """Generates bindings, some in a dataflow block."""
        while count > 0:
            part = self.rng.randint(1, count)
            if self.rng.random() < 0.5:
                self.dataflow(part)
            else:
                self.statements(part)
            count -= part

    def dataflow(self, count: int) -> None:
        """Generates a dataflow block, and exports some of its values."""
        outer, outer_ragged = list(self.live), list(self.ragged)
        with self.builder.dataflow():
            self.in_dataflow = True
            self.statements(count)
            local = self.live[len(outer) :]
            chosen = self.rng.sample(local, self.rng.randint(min(1, len(local)), len(local)))
            data = [var for var in chosen if not isinstance(var.struct_info, FuncStructInfo)]
            outputs = [self.builder.emit_output(var) for var in data]
            new = self.ragged[len(outer_ragged) :]
            self.ragged = outer_ragged + [self.builder.emit_output(var) for var in new]
            self.in_dataflow = False
        self.live = outer + outputs

    def statements(self, count: int) -> None:
        """Generates bindings in the open block."""
        for _ in range(min(count, self.rng.randint(1, 3)) if self.ragged else 0):
            count -= self.ragged_call()
        kinds = _STATEMENTS if self.depth < MAX_DEPTH and not self.in_dataflow else _PLAIN
        for _ in range(count):
            for _attempt in range(4):
                (statement,) = self.rng.choices(list(kinds), list(kinds.values()))
                try:
                    var = statement(self)
                except DiagnosticError:
                    continue
                if var is not None:
                    self.live.append(var)
                    break

    def ragged_call(self) -> int:
        """Generates a value of ragged tensors; returns the number of its bindings, 0 or 1."""
        dense = [var for var in self.live if _is_sized(var.struct_info)]
        arguments = self.ragged, dense, self.sizes, not self.in_dataflow
        var = self.ragged_calls.bind(self.builder, *arguments)
        if var is None:
            return 0
        (self.ragged if has_ragged_axis(var.struct_info) else self.live).append(var)
        return 1

    def op_call(self) -> Var | None:
        """Generates a call of any op."""
        call = self.calls.generate(self.live, self.sizes)
        return None if call is None else self.builder.emit(call)

    def constant(self) -> Var:
        """Generates a small array."""
        shape = tuple([self.rng.choice([0, 1, 2]) for _ in range(self.rng.randint(0, 2))])
        dtype = self.rng.choice(self.calls.dtypes)
        values = np.asarray(
            np.random.default_rng(self.rng.randrange(1 << 30)).integers(0, 3, shape)
        )
        return self.builder.emit(Constant(values.astype(dtype)))

    def shape(self) -> Var:
        """Generates a shape of sizes in scope, or of expressions of them."""
        dims = [self.rng.choice(self.sizes) for _ in range(self.rng.randint(0, 3))]
        return self.builder.emit(ShapeExpr(tuple([d + self.rng.choice([0, 0, 1]) for d in dims])))

    def size_value(self) -> Var:
        """Generates a size as a scalar."""
        return self.builder.emit(PrimValue(self.rng.choice(self.sizes)))

    def tuple_value(self) -> Var:
        """Generates a tuple, perhaps nested, perhaps with names."""
        fields = tuple([self.rng.choice(self.live) for _ in range(self.rng.randint(0, 3))])
        names, share = FIELD_NAMES[: len(fields)], self.rng.random()
        if share < 0.2:
            inner = Tuple(fields[:1], names[:1])
            return self.builder.emit(Tuple((inner, *fields[1:])))
        return self.builder.emit(Tuple(fields, names if share > 0.6 else None))

    def item(self) -> Var | None:
        """Generates a projection of a tuple."""
        tuples = [var for var in self.live if getattr(var.struct_info, "fields", None)]
        if not tuples:
            return None
        chosen = self.rng.choice(tuples)
        count = len(chosen.struct_info.fields)  # type: ignore[attr-defined]
        return self.builder.emit(chosen[self.rng.randrange(count)])

    def match_cast(self) -> Var | None:
        """Generates a valid cast: to the known StructInfo, with new names for some sizes."""
        tensors = [v for v in self.live if isinstance(v.struct_info, TensorStructInfo)]
        if not tensors:
            return None
        chosen = self.rng.choice(tensors)
        info: Any = chosen.struct_info
        if info.ndim is None:
            return None
        old_dims = info.dims if isinstance(info.dims, tuple) else (None,) * info.ndim
        dims = tuple([sym("cast") if d is None or self.rng.random() < 0.3 else d for d in old_dims])
        cast = self.builder.match_cast(chosen, TensorStructInfo(dims, info.dtype))
        new = [dim for dim, old in zip(dims, old_dims, strict=True) if dim is not old]
        self.sizes += new if self.depth == 0 else []
        return cast

    def checked_cast(self) -> Var | None:
        """Generates a cast that some inputs violate: two sizes are equal, or a rank is known."""
        tensors = [v for v in self.live if type(v.struct_info) is TensorStructInfo]
        if not tensors:
            return None
        chosen = self.rng.choice(tensors)
        info: Any = chosen.struct_info
        if isinstance(info.dims, tuple):
            dims = tuple([self.rng.choice([d, d, self.rng.choice(self.sizes)]) for d in info.dims])
        else:
            rank = info.ndim if info.ndim is not None else self.rng.randint(0, 2)
            dims = tuple([self.rng.choice(self.sizes) for _ in range(rank)])
        return self.builder.match_cast(chosen, TensorStructInfo(dims, info.dtype))

    def requirement(self) -> Var | None:
        """Generates a condition on sizes, as `R.require` states."""
        symbolic = [size for size in self.sizes if type(size) is not int]
        if not symbolic:
            return None
        chosen, other = self.rng.choice(symbolic), self.rng.choice([1, 2, 3, *self.sizes])
        comparison = self.rng.choice(["<=", ">=", "<=", ">=", "=="])
        required = condition(comparison, chosen, other)
        if type(required) is not int:
            self.builder.match_cast(*cast_of((required,), None))
        return None

    def coarser(self) -> Var | None:
        """Generates a variable whose StructInfo is coarser than that of its value."""
        value: Expr = Tuple(tuple(self.rng.choices(self.live, k=self.rng.randint(1, 2))))
        if self.rng.random() < 0.3:
            value = Tuple((value, self.rng.choice(self.live)))
        elif self.rng.random() < 0.5:
            call = self.calls.generate(self.live, self.sizes)
            value = value if call is None else self.builder.normalise(call)
        kind = DataflowVar if self.in_dataflow else Var
        self.unnamed += 1
        var = kind(f"coarse{self.unnamed}", coarsened(deduce(value), self.rng))
        self.builder.take(VarBinding(var, value))
        return var

    # Branches, closures, calls

    def kernel_call(self) -> Var | None:
        """Generates a call of a new kernel."""
        fitting = [var for var in self.live if fits_kernels(var.struct_info)]
        if not fitting or self.kernels >= MAX_KERNELS:
            return None
        operands: list[Any] = self.rng.sample(fitting, min(len(fitting), self.rng.randint(1, 2)))
        kernel_generator = KernelGenerator(self.rng, f"kernel{self.kernels}")
        kernel, result_infos = kernel_generator.generate([var.struct_info for var in operands])
        numbers = [p for p in kernel.operands if isinstance(p.struct_info, PrimStructInfo)]
        operands += [PrimValue(self.rng.choice(self.sizes)) for _ in numbers]
        self.kernels += 1
        callee = self.builder.kernel(kernel)
        call = Call(callee, tuple(operands), sinfo_args=result_infos)
        return self.builder.emit(replace(call, struct_info=deduce(call)))

    def condition(self) -> Var | None:
        """Generates a scalar bool."""
        flags = [var for var in self.live if var.struct_info == SCALAR_BOOL]
        return self.rng.choice(flags) if flags else None

    def if_else(self) -> Var | None:
        """Generates a conditional of two values, often of the same StructInfo."""
        cond: Expr | None = self.condition()
        if cond is None:
            cond = Constant(np.asarray(self.rng.random() < 0.5))
        expected = self.rng.choice(self.live).struct_info
        same_info = self.rng.random() < 0.7

        def branch() -> Expr:
            return self.nested(lambda: self.pick(expected if same_info else None))

        return self.builder.if_else(cond, branch, branch)

    def nested(self, body: Callable[[], Expr]) -> Expr:
        """Generates bindings in a nested scope, then a value."""
        outer_live, outer_sizes, outer_ragged = self.live, self.sizes, self.ragged
        self.live, self.sizes = list(self.live), list(self.sizes)
        self.ragged = list(self.ragged)
        self.depth += 1
        self.bindings(self.rng.randint(0, 3))
        value = body()
        self.depth -= 1
        self.live, self.sizes, self.ragged = outer_live, outer_sizes, outer_ragged
        return value

    def pick(self, info: StructInfo | None) -> Var:
        """Returns the latest value with this StructInfo, or any value."""
        fitting = [var for var in self.live if var.struct_info == info]
        return fitting[-1] if fitting else self.rng.choice(self.live)

    def closure(self) -> Var:
        """Generates a nested function, which may capture variables."""
        infos = [self.rng.choice(self.live).struct_info for _ in range(self.rng.randint(0, 2))]
        params = [
            Var(f"p{i}", info) for i, info in enumerate(infos) if ANONYMOUS_SIZE not in str(info)
        ]

        def body() -> Expr:
            self.live += params
            return self.nested(self.result)

        outer = list(self.live)
        var = self.builder.local_function(params, body)
        self.live = outer
        return var

    def loop(self) -> Var | None:
        """Generates a scan over the first axis of a tensor; its step takes a state and a slice."""
        fitting = [var for var in self.live if _is_sized(var.struct_info)]
        scanned = [var for var in fitting if var.struct_info.dims]  # type: ignore[attr-defined]
        if not scanned:
            return None
        x, state = self.rng.choice(scanned), self.rng.choice(fitting)
        info: Any = x.struct_info
        step = Var("step", TensorStructInfo(info.dims[1:], info.dtype))
        before = Var("state", state.struct_info)

        def result() -> Expr:
            outputs = [var for var in self.live if _is_sized(var.struct_info)]
            return Tuple((self.pick(before.struct_info), self.rng.choice(outputs)))

        def body() -> Expr:
            self.live += [before, step]
            return self.nested(result)

        outer = list(self.live)
        cell = self.builder.local_function([before, step], body)
        self.live = outer
        return self.builder.emit(scan(cell, (state,), x))

    def call(self) -> Var | None:
        """Generates a call of a closure or of an earlier function of the module."""
        closures = [v for v in self.live if isinstance(v.struct_info, FuncStructInfo)]
        built = self.builder.functions.items()
        globals_ = [self.builder.global_var(n) for n, f in built if isinstance(f, Function)]
        callees: list[Any] = [*closures, *globals_]
        if not callees:
            return None
        callee = self.rng.choice(callees)
        infos = callee.struct_info.params or ()
        arguments: list[Any] = [self.argument(info) for info in infos]
        if any(argument is None for argument in arguments):
            params = [Var(f"p{position}", info) for position, info in enumerate(infos)]
            try:
                values = random_values(params, self.rng.randrange(1 << 30), among=(1, 2))
            except StructIRError:
                return None
            arguments = [_literal(value) for value in values]
        return self.builder.emit(Call(callee, tuple(arguments)))

    def argument(self, expected: StructInfo) -> Var | None:
        """Returns a value that is valid for a parameter."""
        fitting = [v for v in self.live if _looks_like(v.struct_info, expected)]
        return self.rng.choice(fitting) if fitting else None


def _literal(value: Any) -> Expr:
    """Converts a run-time value to an expression."""
    if isinstance(value, np.ndarray):
        return Constant(value)
    if isinstance(value, tuple) and value and all(isinstance(size, int) for size in value):
        return ShapeExpr(value)
    if isinstance(value, tuple):
        return Tuple(tuple(map(_literal, value)))
    return PrimValue(value)


def _is_data(info: StructInfo) -> bool:
    """Returns whether a value contains no function."""
    if isinstance(info, TupleStructInfo):
        return all(map(_is_data, info.fields))
    return not isinstance(info, FuncStructInfo | ObjectStructInfo)


def _is_sized(info: StructInfo | None) -> bool:
    """Returns whether a value is a tensor of known dtype and sizes."""
    return isinstance(info, TensorStructInfo) and isinstance(info.dims, tuple) and bool(info.dtype)


def _looks_like(info: StructInfo, expected: StructInfo) -> bool:
    same = type(info) is type(expected)
    fields = ("dtype", "ndim")
    return same and all(getattr(info, f, None) == getattr(expected, f, None) for f in fields)


_PLAIN: dict[Callable[[_ProgramGenerator], Var | None], int] = {
    _ProgramGenerator.op_call: 12,
    _ProgramGenerator.constant: 1,
    _ProgramGenerator.shape: 1,
    _ProgramGenerator.size_value: 1,
    _ProgramGenerator.tuple_value: 1,
    _ProgramGenerator.item: 2,
    _ProgramGenerator.match_cast: 2,
    _ProgramGenerator.checked_cast: 1,
    _ProgramGenerator.requirement: 1,
    _ProgramGenerator.coarser: 1,
    _ProgramGenerator.kernel_call: 1,
}
_STATEMENTS = _PLAIN | {
    _ProgramGenerator.if_else: 2,
    _ProgramGenerator.closure: 1,
    _ProgramGenerator.loop: 1,
    _ProgramGenerator.call: 3,
}
