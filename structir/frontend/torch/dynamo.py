"""The backend of `torch.compile(model, backend="structir")`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structir.frontend.torch.registry as registry
from structir.errors import Diagnostic, DiagnosticError, StructIRError, warn
from structir.frontend.torch import ops
from structir.frontend.torch.call_sizes import CallSizes
from structir.frontend.torch.effects import WITH_EFFECTS
from structir.frontend.torch.model import from_traced
from structir.frontend.torch.ops import random
from structir.frontend.torch.strides import stride_setter
from structir.frontend.torch.tensors import as_array, as_tensor
from structir.frontend.torch.traced_graph import (
    GET_ITEM,
    SAMPLERS,
    TracedProgram,
    target_of,
    traced_program,
)
from structir.ir.module import IRModule
from structir.lazy import lazy_module
from structir.targets.compile import compile as compile_module
from structir.targets.compile import factory

torch = lazy_module("torch")
common = lazy_module("torch._dynamo.backends.common")
fake_tensor = lazy_module("torch._subclasses.fake_tensor")
decompositions = lazy_module("torch._decomp")
Run = Callable[[Sequence[Any]], list[Any]]


def structir_backend(
    graph_module: Any,
    inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Any:
    """Compiles a graph that torch captured: `torch.compile(model, backend="structir")`.

    `options` are those of `structir.compile`. Symbolic sizes stay symbolic, so one compilation
    serves all sizes. Training is supported: AOTAutograd derives the backward graph. A graph that
    StructIR cannot compile runs in torch, with a warning that gives the reason. Raises
    StructIRError for an invalid option, and for a `mode`, which only torch's own backend has.
    """
    if mode is not None:
        message = f"torch.compile: expected no mode for the backend structir, found {mode!r}"
        raise StructIRError(f"{message}; help: pass options: `options={{'num_threads': 2}}`")
    ops.load()
    settings = dict(options or {})
    target = settings.pop("target", "cpu")
    factory(target, settings)
    if target == "cpu":  # another device may be missing: the graph runs in torch
        compile_module(IRModule(), target, **settings)  # raises an error for an invalid value

    def compiled(graph: Any, _: Sequence[Any]) -> Run:
        try:
            with fake_tensor.unset_fake_temporarily():
                run = _compiled(graph, target, settings)
        except StructIRError as error:
            warn(Diagnostic(f"torch.compile: a graph runs in torch: {error}", severity="warning"))
            run = _in_torch(graph)
        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    backend = common.aot_autograd(
        fw_compiler=compiled, bw_compiler=compiled, decompositions=_decompositions()
    )
    return backend(graph_module, inputs)


def _decompositions() -> dict[Any, Any]:
    """Returns torch's decompositions of the ops that have no mapping, and of random ops."""
    table = decompositions.decomposition_table
    return {
        op: rule
        for op, rule in table.items()
        if registry.find_build(str(op)) is None or _is_random(str(op))
    }


def _is_random(target: str) -> bool:
    """Whether an op samples random numbers: its mapping would return the same ones at each call."""
    return getattr(registry.find_build(target), "__module__", "") == random.__name__


def _in_torch(graph: Any) -> Run:
    def run(arguments: Sequence[Any]) -> list[Any]:
        return list(graph(*arguments))

    return run


def _compiled(graph: Any, target: str, options: dict[str, Any]) -> Run:
    """Returns a graph as a function of torch's tensors and of sizes."""
    program = traced_program(graph)
    order = [k for kind, k in program.results if kind == "result"]
    if not order:
        return lambda arguments: _assembled(program.results, arguments, [])
    _require_no_random_ops(graph)
    main = compile_module(from_traced(program), target, **options)["main"]
    single = len(set(order)) == 1
    sizes = CallSizes(program.module.graph)
    sample = _sampler(program, sizes)
    set_strides = stride_setter(program.module.graph, sizes)
    readers = [_reader(node.meta.get("val")) for node in _computed(graph)]
    graph_inputs = program.module.graph.inputs
    numbers = [k for k in program.inputs if graph_inputs[k].name in program.module.graph.scalars]

    def run(arguments: Sequence[Any]) -> list[Any]:
        if any([arguments[k] < 0 for k in numbers]):  # a size is not negative
            return list(graph(*arguments))
        values = [*[arguments[k] for k in program.inputs], *sample(arguments)]
        results = main(*[as_array(value) for value in values])
        arrays = [results] if single else results
        tensors = [read(array) for read, array in zip(readers, arrays, strict=True)]
        return _assembled(program.results, arguments, set_strides(arguments, tensors))

    return run


def _require_no_random_ops(graph: Any) -> None:
    """Raises DiagnosticError for a random op whose operands are data: its samples differ at each
    call."""
    for node in graph.graph.nodes:
        if node.op == "call_function" and target_of(node) not in SAMPLERS:
            target = target_of(node)
            if _is_random(target):
                message = "the op samples random numbers"
                raise DiagnosticError(Diagnostic(message, op=target, code="E0805"))


def _sampler(program: TracedProgram, sizes: CallSizes) -> Callable[[Sequence[Any]], list[Any]]:
    """Returns the function that samples the random tensors of a call with torch's generator."""
    metas = [sample.meta for sample in program.samples]
    evaluate = sizes.evaluator([sizes.dim(size) for meta in metas for size in meta.sizes])

    def sampled(arguments: Sequence[Any]) -> list[Any]:
        numbers = iter(evaluate(arguments)) if metas else iter(())
        tensors = []
        for sample in program.samples:
            shape = [next(numbers) for _ in sample.meta.sizes]
            dtype = getattr(torch, str(sample.meta.dtype))
            tensors.append(getattr(torch, sample.op)(*sample.numbers, shape, dtype=dtype))
        return tensors

    return sampled


def _computed(graph: Any) -> list[Any]:
    """Returns the different nodes among the outputs that are not inputs, in order."""
    outputs = graph.graph.output_node().args[0]
    nodes = [n for n in outputs if isinstance(n, torch.fx.Node) and n.op != "placeholder"]
    return [n for n in dict.fromkeys(nodes) if not _is_token(n)]


def _is_token(node: Any) -> bool:
    """Whether a node is the first result of an op with effects."""
    is_field = target_of(node) == GET_ITEM and node.args[1] == 0
    return is_field and target_of(node.args[0]) == WITH_EFFECTS


def _assembled(
    results: Sequence[tuple[str, Any]], arguments: Sequence[Any], values: Sequence[Any]
) -> list[Any]:
    sources = {"input": arguments, "result": values}
    return [sources[kind][k] if kind in sources else k for kind, k in results]


def _reader(meta: Any) -> Callable[[Any], Any]:
    """Returns the function that converts a result to the value of its metadata."""
    if not isinstance(meta, torch.Tensor):
        return lambda array: array.item()
    return lambda array: as_tensor(array, meta)
