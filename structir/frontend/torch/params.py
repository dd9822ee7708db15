"""Conversion of a program's inputs to parameters of the function or constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from structir.frontend.builder import NodeBuilder
from structir.frontend.torch.archive import wrong
from structir.frontend.torch.complex import ComplexTensor, split_pairs
from structir.frontend.torch.graph import ExportedModule, Input, Meta, Ref
from structir.frontend.torch.importer import TorchImporter
from structir.frontend.torch.memory import written_names
from structir.frontend.torch.registry import in_place
from structir.frontend.torch.sizes import TorchSymbols
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Constant, Expr, Var
from structir.ir.struct_info import PrimStructInfo, TensorStructInfo
from structir.script import R

LARGE_BUFFER = 1024  # elements
STATE = ("parameter", "buffer", "constant")


class TensorSource(Protocol):
    """The tensors of a program: its weights and constants, by name."""

    @property
    def name(self) -> str:
        """The name of the program, for messages."""
        ...

    def payloads(self, kind: str) -> Mapping[str, Any]:
        """Returns the descriptions of the `weights` or `constants`, by name."""
        ...

    def tensor(self, name: str, payload: Any) -> Any:
        """Returns the elements of a tensor."""
        ...


class Parameters:
    """The values of the inputs: variables for user inputs and mutated state, constants for the
    rest."""

    def __init__(
        self,
        source: TensorSource,
        program: ExportedModule,
        importer: TorchImporter,
        as_inputs: bool,
    ) -> None:
        self.program, self.symbols = program, importer.symbols
        self.values: dict[str, Any] = {}
        self.variables: list[Var] = []
        self.state: dict[str, str] = {}  # the parameter of each mutable buffer, by its name
        self.initial_state: list[Expr] = []  # their initial values
        self.declared_sizes: dict[str, tuple[Dim, ...]] = {}  # by input name
        self.complex_names: list[str] = []  # of inputs whose last axis holds both parts
        user = [i for i in program.inputs if i.kind == "user" and isinstance(i.value, Ref)]
        tensors = {i.value.name for i in user} & set(program.graph.tensors)
        numbers = [program.graph.scalars.get(i.value.name) for i in user]
        metas = {name: program.graph.tensors[name] for name in sorted(tensors)}
        self.solved_sizes = solve_input_sizes(
            self.symbols, metas, [n for n in numbers if isinstance(n, str)]
        )
        for spec in user:
            self._variable(spec)
        self.inputs = len(self.variables)
        self.written_inputs = written_names(program.graph, in_place)
        self._state(source, as_inputs)

    def _meta(self, spec: Input) -> Meta:
        meta = self.program.graph.tensors.get(spec.value.name)
        if meta is None:
            raise wrong(f"the exported program has no metadata of input {spec.value.name!r}")
        return meta

    def _variable(self, spec: Input) -> None:
        name = spec.value.name
        scalar = self.program.graph.scalars.get(name)
        if scalar is not None:
            size = self.symbols.dim(scalar)
            self.values[name], self.declared_sizes[name] = size, (size,)
            self.variables.append(Var(name, PrimStructInfo("int64", value=size)))
            return
        meta = self._meta(spec)
        sizes = tuple([self.symbols.dim(s) for s in meta.sizes])
        if meta.is_complex:
            sizes = (*sizes, 2)
            self.complex_names.append(name)
        solved = tuple([self.solved_sizes.get((name, k), d) for k, d in enumerate(sizes)])
        var = Var(name, TensorStructInfo(solved, meta.dtype))
        self.values[name] = var
        self.variables.append(var)
        self.declared_sizes[name] = sizes

    def _state(self, source: TensorSource, as_inputs: bool) -> None:
        payloads = {**source.payloads("constants"), **source.payloads("weights")}
        changed = {o.target for o in self.program.outputs if o.kind != "user"} | self.written_inputs
        for spec in self.program.inputs:
            if spec.kind == "value":
                self.values[spec.target] = spec.value
            if spec.kind == "size":
                name = spec.value.name
                self.values[name] = self.symbols.dim(self.program.graph.scalars[name])
            if spec.kind not in STATE:
                if spec.kind not in ("user", "value", "size"):
                    raise wrong(f"input {spec.target!r}: expected a tensor, found a custom object")
                continue
            name = spec.value.name
            if name in changed or spec.target in changed:
                self._variable(spec)
                self.state[spec.target] = name
                if spec.target in payloads:
                    data = source.tensor(spec.target, payloads[spec.target])
                    self.initial_state.append(initial_value(data))
            elif as_inputs:
                self._variable(spec)
            elif spec.target not in payloads:
                raise wrong(f"{source.name} has no data of {spec.target!r}")
            else:
                data = source.tensor(spec.target, payloads[spec.target])
                self.values[name] = _constant(data)

    def split_complex(self, builder: NodeBuilder) -> None:
        """Splits the complex inputs into parts, in the function that is being built."""
        for name in self.complex_names:
            self.values[name] = split_pairs(builder, self.values[name])

    def mutated(self, program: ExportedModule) -> dict[str, str]:
        """Returns the mutated inputs and state: output names, and the names of their final
        values."""
        results = {}
        for output in program.outputs:
            if output.kind != "user":
                results[f"{output.target}"] = output.value.name
        for spec in program.inputs:
            if isinstance(spec.value, Ref) and spec.value.name in self.written_inputs:
                results[spec.target or spec.value.name] = spec.value.name
        return results


def initial_value(data: Any) -> Expr:
    """Returns the initial value of a buffer; the last axis of a complex one holds both parts.

    A large one of zeros is a call, which takes no space in files.
    """
    if np.iscomplexobj(data):
        data = np.stack((data.real, data.imag), axis=-1)
    if data.size < LARGE_BUFFER or np.ascontiguousarray(data).view(np.uint8).any():
        return Constant(data)
    return R.zeros(data.shape, data.dtype.name)


def _constant(data: Any) -> Constant | ComplexTensor:
    if not np.iscomplexobj(data):
        return Constant(data)
    return ComplexTensor(*[Constant(p.copy()) for p in (data.real, data.imag)])


def solve_input_sizes(
    symbols: TorchSymbols, metas: Mapping[str, Meta], numbers: Sequence[str]
) -> dict[tuple[str, int], Dim]:
    """Returns fresh variables for input sizes, and solves torch's variables for them.

    This applies to a variable that is not the size of any axis: an input of `2 * s` rows gets `n`
    rows, and `s` becomes `n // 2`.
    """
    sizes = {(n, k): symbols.dim(s) for n, m in metas.items() for k, s in enumerate(m.sizes)}
    variables = [dims.as_sym(d) for d in (*sizes.values(), *map(symbols.dim, numbers))]
    bound = {s for s in variables if s is not None}
    solved: dict[tuple[str, int], Dim] = {}
    for index, size in sizes.items():
        for variable in sorted(dims.syms(size) - bound, key=lambda s: s.name):
            parts = dims.linear(size, variable)
            if parts is None or not isinstance(parts[0], int) or not dims.syms(parts[1]) <= bound:
                continue
            fresh_size = solved[index] = symbols.fresh(f"{index[0]}_{index[1]}")
            symbols.define(variable, dims.floordiv(fresh_size - parts[1], parts[0]))
            bound.add(variable)
            break
    return solved
