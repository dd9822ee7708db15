"""The backend of `torch.compile(model, backend="structir")`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structir.frontend.torch.registry as registry
from structir.backend.compile import compile as compile_module
from structir.errors import Diagnostic, StructIRError, warn
from structir.frontend.torch import ops
from structir.frontend.torch.model import from_traced
from structir.frontend.torch.strides import stride_setter
from structir.frontend.torch.tensors import as_array, as_tensor
from structir.frontend.torch.traced_graph import traced_program
from structir.lazy import lazy_module

torch = lazy_module("torch")
common = lazy_module("torch._dynamo.backends.common")
fake_tensor = lazy_module("torch._subclasses.fake_tensor")
decompositions = lazy_module("torch._decomp")
Run = Callable[[Sequence[Any]], list[Any]]


def structir_backend(
    graph_module: Any, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Any:
    """Compiles a graph that torch captured: `torch.compile(model, backend="structir")`.

    `options` are those of `structir.compile`. Symbolic sizes stay symbolic, so one compilation
    serves all sizes. Training is supported: AOTAutograd derives the backward graph. A graph that
    StructIR cannot compile runs in torch, with a warning that gives the reason.
    """
    ops.load()

    def compiled(graph: Any, _: Sequence[Any]) -> Run:
        try:
            with fake_tensor.unset_fake_temporarily():
                run = _compiled(graph, dict(options or {}))
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
    """Returns torch's decompositions of the ops that have no mapping."""
    table = decompositions.decomposition_table
    return {op: rule for op, rule in table.items() if registry.find_build(str(op)) is None}


def _in_torch(graph: Any) -> Run:
    def run(arguments: Sequence[Any]) -> list[Any]:
        return list(graph(*arguments))

    return run


def _compiled(graph: Any, options: dict[str, Any]) -> Run:
    """Returns a graph as a function of torch's tensors and of sizes."""
    program = traced_program(graph)
    order = [k for kind, k in program.results if kind == "result"]
    if not order:
        return lambda arguments: _assembled(program.results, arguments, [])
    module = from_traced(program)
    main = compile_module(module, **options)["main"]
    single = len(set(order)) == 1
    metas = [node.meta.get("val") for node in _computed(graph)]
    set_strides = stride_setter(program.module.graph)
    readers = [_reader(meta) for meta in metas]

    def run(arguments: Sequence[Any]) -> list[Any]:
        results = main(*[as_array(a) for a in arguments])
        arrays = [results] if single else results
        values = [read(array) for read, array in zip(readers, arrays, strict=True)]
        return _assembled(program.results, arguments, set_strides(arguments, values))

    return run


def _computed(graph: Any) -> list[Any]:
    """Returns the different nodes among the outputs that are not inputs, in order."""
    outputs = graph.graph.output_node().args[0]
    nodes = [n for n in outputs if isinstance(n, torch.fx.Node) and n.op != "placeholder"]
    return list(dict.fromkeys(nodes))


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
