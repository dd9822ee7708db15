"""`to_stablehlo`: exports a function of a module as a StableHLO module in MLIR text."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from structir.batching.combinators import expanded
from structir.errors import Diagnostic, DiagnosticError
from structir.export.stablehlo import ops
from structir.export.stablehlo.block import HloBlock
from structir.export.stablehlo.functions import HloExporter
from structir.export.stablehlo.tensors import HloTensor, identifier
from structir.export.stablehlo.values import HloValue, bind_sizes, type_info
from structir.ir.expr import Function, Var
from structir.ir.module import IRModule
from structir.ir.struct_info import StructInfo, TupleStructInfo
from structir.passes.bind_symbolic_vars import with_sizes


def to_stablehlo(
    module: IRModule, function: str = "main", sizes: Mapping[str, int] | str | None = None
) -> str:
    """Returns a function of a module as a StableHLO module in MLIR text.

    Tuples become several parameters or results, and calls of other functions are inlined. Symbolic
    dims are dynamic (`?`), except those that `sizes` binds: a dict, or `"batch=4 seq=16"`. Sums of
    products treat absent elements, such as the padding of a convolution, as zeros.

    Source: the StableHLO specification. Functions such as `erf` are operations of CHLO, a dialect
    of the same project.

    Raises `DiagnosticError` for an op, an external function or a size without a StableHLO form.
    """
    ops.load()
    module = expanded(module)
    main = module.functions.get(function)
    if not isinstance(main, Function):
        available = ", ".join(module.functions)
        message = f"no function {function} in the module; available: {available}"
        raise DiagnosticError(Diagnostic(message, code="E0812"))
    if sizes:
        main = with_sizes(main, sizes)
    exporter = HloExporter(module, HloBlock())
    params = [tensor for param in main.params for tensor in _parameter(exporter, param)]
    results = exporter.tensors(exporter.sequence(main.body))
    lines, _ = exporter.block.live([result.name for result in results])
    return _module_text(function, params, results, lines)


def save_stablehlo(
    module: IRModule,
    path: str | os.PathLike[str],
    function: str = "main",
    sizes: Mapping[str, int] | str | None = None,
) -> str:
    """Writes a function of a module to a file as `to_stablehlo` returns it; returns the text."""
    text = to_stablehlo(module, function, sizes)
    Path(path).write_text(text)
    return text


def _parameter(exporter: HloExporter, param: Var) -> list[HloTensor]:
    """Declares a parameter: one value for each field of a tuple."""
    tensors: list[HloTensor] = []

    def declare(stem: str, info: StructInfo | None) -> Any:
        if isinstance(info, TupleStructInfo):
            return [declare(f"{stem}_{k}", field) for k, field in enumerate(info.fields)]
        known = type_info(info)
        if known is None:
            exporter.span = param.span
            exporter.fail(
                f"parameter {param.name}: expected a tensor of known rank and dtype, found {info}",
                f'declare it: `{param.name}: R.Tensor(("n",), "float32")`',
            )
        tensor = HloTensor(exporter.block.fresh(stem), tuple(known[0]), known[1])
        tensors.append(tensor)
        return tensor

    value: HloValue = declare(param.name, param.struct_info)
    exporter.values[param] = value
    bind_sizes(exporter.block, value, param.struct_info)
    return tensors


def _module_text(
    name: str, params: list[HloTensor], results: list[HloTensor], lines: list[str]
) -> str:
    header = ", ".join([f"{p.name}: {p.type}" for p in params])
    types = ", ".join([r.type for r in results])
    values = ", ".join([r.name for r in results])
    end = f"func.return {values} : {types}" if results else "func.return"
    return "\n".join(
        [
            "module {",
            f"  func.func public @{identifier(name)}({header}) -> ({types}) {{",
            *[f"    {line}" for line in [*lines, end]],
            "  }",
            "}",
            "",
        ]
    )
