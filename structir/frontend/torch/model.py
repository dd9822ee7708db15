"""`from_exported_program` and `from_pt2`: import an exported torch program."""

from __future__ import annotations

import copy
import dataclasses
import importlib.util
import io
import os
import tempfile
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import IO, Any

from structir.analysis.donation import INITIAL_STATE, STATE
from structir.errors import Diagnostic, DiagnosticError, MissingExtraError
from structir.frontend.progress import Progress, counter
from structir.frontend.torch import ops
from structir.frontend.torch.archive import Archive, wrong
from structir.frontend.torch.checks import check_sizes
from structir.frontend.torch.complex import ComplexTensor, join_pairs
from structir.frontend.torch.effects import remove_tokens
from structir.frontend.torch.graph import ExportedModule, FxGraph, Ref, program_of
from structir.frontend.torch.guard_origins import UNKNOWN_ORIGINS, GuardOrigins, origins_of
from structir.frontend.torch.importer import CONVERSION_ERRORS, TorchImporter
from structir.frontend.torch.inlining import AUTOCAST, inline_blocks
from structir.frontend.torch.node import FxScope
from structir.frontend.torch.params import Parameters, TensorSource
from structir.frontend.torch.scalars import as_tensor
from structir.frontend.torch.sizes import Ratio, TorchSymbols
from structir.frontend.torch.traced_graph import TracedProgram, TracedTensors
from structir.frontend.torch.unsupported import (
    RejectedNodeError,
    UnmappedOpsError,
    check_supported,
    with_hint,
)
from structir.interrupts import collection_paused
from structir.ir.dims import Poly
from structir.ir.expr import Expr, Tuple
from structir.ir.module import IRModule
from structir.lazy import lazy_module

torch = lazy_module("torch")
INTERNALS_ERRORS = (
    AttributeError,
    KeyError,
    IndexError,
    TypeError,
)  # torch's internals differ between releases
FUNCTORCH = "torch._functorch."  # nodes of `vmap`, `grad` and `jvp` in a model
CONTROL_FLOW_OPS = frozenset(
    f"higher_order.{name}" for name in ("cond", "while_loop", "scan", "map_impl")
)


@collection_paused()
def from_exported_program(
    program: Any,
    *,
    names: Mapping[str, str] | None = None,
    weights_as_inputs: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> IRModule:
    """Imports an `ExportedProgram` of `torch.export.export` as a module with the function `main`.

    Symbolic sizes have the names of the program's `Dim`s, or else torch's symbols; `names` renames
    them, such as `{"s77": "batch"}`. Parameters and buffers are constants, or with
    `weights_as_inputs` the last parameters of `main`. Random ops sample by `seed`, the same
    numbers at every call; they are not torch's numbers. A complex input or output is a tensor of
    floats with a last axis of 2, as `torch.view_as_real` returns it. `progress(done, total)` is
    called after each node.

    Raises `DiagnosticError` for an op without a mapping, and `MissingExtraError` without torch.
    """
    if importlib.util.find_spec("torch") is None:
        message = "importing an ExportedProgram requires torch: pip install structir[torch]"
        raise MissingExtraError(message)
    names = {**_dim_names(program), **(names or {})}
    fallback = _Fallback(program)
    while True:
        try:
            with _serialize(fallback.program) as file:
                is_original = not fallback.original  # decompositions contain recorded sizes
                settings = (names, weights_as_inputs, seed, progress)
                origins = origins_of(program, fallback.program)
                return _module(
                    file, "program", *settings, accepts_clamped=is_original, origins=origins
                )
        except UnmappedOpsError as error:
            fallback.decompose(error)


def _serialize(program: Any) -> IO[bytes]:
    """Returns a program serialized with `torch.export.save`."""
    try:
        return _save(program)
    except Exception as error:  # torch's serializer raises arbitrary exceptions
        raise wrong(f"torch.export.save failed: {error}") from error


def _save(program: Any) -> IO[bytes]:
    """Saves a program to a temporary file, which can be mapped, or else to memory."""
    with suppress(OSError, RuntimeError):  # no writable directory, a full disk
        return _save_to(tempfile.TemporaryFile(), program)
    return _save_to(io.BytesIO(), program)


def _save_to(file: IO[bytes], program: Any) -> IO[bytes]:
    try:
        torch.export.save(_without_containers(program), file)
    except BaseException:
        file.close()
        raise
    return file


def _without_containers(program: Any) -> Any:
    """Returns a program without the container types of its arguments and results.

    An import uses their leaves only, and torch cannot save types without a registered name, such
    as the named tuples of `max` and `sort`.
    """
    try:
        result = copy.copy(program)
        calls = program.module_call_graph
        result._module_call_graph = [dataclasses.replace(call, signature=None) for call in calls]
    except INTERNALS_ERRORS:
        return program
    return result


class _Fallback:
    """Decomposes by torch the ops that an import does not support, until none can be."""

    def __init__(self, program: Any) -> None:
        self.program = program
        self.original: frozenset[str] = frozenset()
        self.tried: set[str] = set()
        self.rejections: list[RejectedNodeError] = []

    def decompose(self, error: UnmappedOpsError) -> None:
        """Decomposes the ops of an error; raises if torch cannot.

        A decomposition also traces through autocast and the transforms of `torch.func`.

        If the ops come from a decomposition, the error is that of the decomposed op.
        """
        self.original = self.original or _targets(self.program)
        if isinstance(error, RejectedNodeError):
            self.rejections.append(error)
        names = error.names - self.tried
        table = {
            op: decomposition
            for op, decomposition in torch.export.default_decompositions().items()
            if str(op) in names
        }
        self.tried |= names
        is_traced = any(name == AUTOCAST or name.startswith(FUNCTORCH) for name in names)
        if not table and not is_traced:
            is_own = not error.names or bool(error.names & self.original)
            final = error if is_own or not self.rejections else self.rejections[0]
            raise with_hint(final, is_decomposed=True) from error
        try:
            self.program = self.program.run_decompositions(table)
        except Exception as failure:  # torch's decompositions raise arbitrary exceptions
            raise with_hint(error, is_decomposed=True) from failure


def _targets(program: Any) -> frozenset[str]:
    """Returns the names of the ops of a program."""
    modules = program.graph_module.modules()
    graphs = [module.graph for module in modules if hasattr(module, "graph")]
    return frozenset({str(node.target) for graph in graphs for node in graph.nodes})


def _dim_names(program: Any) -> dict[str, str]:
    """Returns the names of the program's `Dim`s by torch symbol; a stored program does not have
    them."""
    try:
        values = [n.meta["val"] for n in program.graph.nodes if n.op == "placeholder"]
        modes = [v.fake_mode for v in values if hasattr(v, "fake_mode")]
        debug_names = modes[0].shape_env.source_name_to_debug_name
        sources = modes[0].shape_env.var_to_sources
        pairs = [(str(var), s.name) for var, items in sources.items() for s in items]
        resolved = [(var, name() if callable(name) else name) for var, name in pairs]
        return {var: debug_names[name] for var, name in resolved if name in debug_names}
    except INTERNALS_ERRORS:
        return {}


@collection_paused()
def from_pt2(
    path: str | os.PathLike[str] | IO[bytes],
    *,
    names: Mapping[str, str] | None = None,
    weights_as_inputs: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
    mapped: bool = True,
) -> IRModule:
    """Imports a `.pt2` file that `torch.export.save` wrote; torch is not needed.

    The arguments are those of `from_exported_program`. Large weights are views of the
    memory-mapped file, which must not change while they are in use; `mapped=False` copies them.
    Raises `DiagnosticError` for an invalid file, an op without a mapping, or an invalid node.
    """
    try:
        return _read(path, names, weights_as_inputs, seed, progress, mapped)
    except UnmappedOpsError as error:
        raise with_hint(error, is_decomposed=False) from error


def _read(
    path: str | os.PathLike[str] | IO[bytes],
    names: Mapping[str, str] | None,
    as_inputs: bool,
    seed: int,
    progress: Progress | None,
    mapped: bool,
) -> IRModule:
    if not isinstance(path, str | os.PathLike):
        return _module(path, "program", names, as_inputs, seed, progress, mapped)
    path = Path(path)
    try:
        with path.open("rb") as file:
            return _module(file, path.name, names, as_inputs, seed, progress, mapped)
    except OSError as error:
        raise wrong(f"cannot read {path.name}: {error.strerror}") from error


def _module(
    file: Any,
    name: str,
    names: Mapping[str, str] | None,
    as_inputs: bool,
    seed: int,
    progress: Progress | None,
    mapped: bool = True,
    accepts_clamped: bool = True,
    origins: GuardOrigins = UNKNOWN_ORIGINS,
) -> IRModule:
    archive = Archive(file, name, mapped)
    try:
        program, settings = program_of(archive.program()), (names, as_inputs, seed, progress)
        return _imported(program, archive, *settings, accepts_clamped, origins)
    except CONVERSION_ERRORS as error:  # inconsistent fields
        raise wrong(
            f"{name}: not a valid exported program ({type(error).__name__}: {error})"
        ) from error


def _imported(
    program: ExportedModule,
    tensors: TensorSource,
    names: Mapping[str, str] | None,
    as_inputs: bool,
    seed: int,
    progress: Progress | None,
    accepts_clamped: bool = False,
    origins: GuardOrigins = UNKNOWN_ORIGINS,
) -> IRModule:
    ops.load()
    program = inline_blocks(remove_tokens(program))
    check_supported(program.graph)
    symbols = TorchSymbols(names or {})
    count = counter(progress, len(program.graph.nodes))
    importer = TorchImporter(symbols, program.ranges, count, seed, accepts_clamped)
    params = Parameters(tensors, program, importer, as_inputs)
    return _build_module(importer, program, params, tensors.name, origins)


@collection_paused()
def from_traced(program: TracedProgram, name: str = "graph") -> IRModule:
    """Imports a traced graph; its constants are constants of `main`.

    Raises `DiagnosticError` for an op without a mapping.
    """
    return _imported(program.module, TracedTensors(name, program.constants), None, False, 0, None)


def _build_module(
    importer: TorchImporter,
    program: ExportedModule,
    params: Parameters,
    where: str,
    origins: GuardOrigins,
) -> IRModule:
    graph, builder = program.graph, importer.builder
    result_names = [o.value.name for o in program.outputs if isinstance(o.value, Ref)]
    scope = FxScope(graph, params.values, where, frozenset(result_names))
    outputs = [o for o in program.outputs if o.kind == "user"]
    mutated = params.mutated(program)
    attributes: dict[str, Any] = {
        "input_names": tuple([p.name for p in params.variables]),
        "output_names": tuple([*_output_names(outputs), *mutated]),
        "num_input": params.inputs,
    }
    names = [*mutated]
    state = {n: (p, len(outputs) + names.index(n)) for n, p in params.state.items() if n in mutated}
    has_initial = len(params.initial_state) == len(state)
    if state:
        attributes |= {STATE: state} | ({INITIAL_STATE: "initial_state"} if has_initial else {})
    with builder.function("main", params.variables, attrs=attributes):
        with builder.dataflow() if is_flat(graph) else nullcontext():
            check_sizes(importer, program, params, origins)
            params.split_complex(builder)
            outputs_of_graph = importer.run(scope)
            user = [
                v
                for v, o in zip(outputs_of_graph, program.outputs, strict=True)
                if o.kind == "user"
            ]
            values = [*user, *[importer.read(scope, name) for name in mutated.values()]]
            results = [
                importer.emit_result(_result(value), name)
                for value, name in zip(values, attributes["output_names"], strict=True)
            ]
        if not results:
            raise wrong("the program has no outputs")
        builder.emit_func_output(results[0] if len(results) == 1 else Tuple(tuple(results)))
    if state and has_initial:
        with builder.function("initial_state", []):
            values = [builder.emit(value) for value in params.initial_state]
            builder.emit_func_output(values[0] if len(values) == 1 else Tuple(tuple(values)))
    return builder.get()


def is_flat(graph: FxGraph) -> bool:
    """Returns whether a graph can be in a dataflow block: it has no conditionals or loops."""
    inner = [v for n in graph.nodes for v in n.args.values() if isinstance(v, FxGraph)]
    return all(n.target not in CONTROL_FLOW_OPS for n in graph.nodes) and all(
        is_flat(g) for g in inner
    )


def _output_names(outputs: list[Any]) -> list[str]:
    return [o.value.name if isinstance(o.value, Ref) else f"out_{k}" for k, o in enumerate(outputs)]


def _result(value: Any) -> Expr:
    """Returns a result as an expression: a number becomes a tensor of rank 0, None the empty
    tuple; the parts of a complex tensor are along a new last axis."""
    if isinstance(value, ComplexTensor):
        return join_pairs(value)
    if value is None:
        return Tuple(())
    if isinstance(value, Expr):
        return value
    if isinstance(value, bool):
        return as_tensor(value, "bool")
    if isinstance(value, int | Poly):
        return as_tensor(value, "int64")
    if isinstance(value, float | Ratio):
        return as_tensor(value, "float64")
    raise DiagnosticError(
        Diagnostic(f"program output: expected a tensor or a number, found {value!r}", code="E0808")
    )
