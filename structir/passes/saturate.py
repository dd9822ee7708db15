"""Replaces values by the cheapest equal ones, by equality saturation."""

from __future__ import annotations

from typing import Any

from structir.analysis.variables import symbols_in
from structir.errors import StructIRError
from structir.ir.module import IRModule
from structir.passes.base import NonNegative, module_pass, note
from structir.passes.bind_symbolic_vars import check_dims, read_sizes
from structir.passes.canonicalise_bindings import canonicalise_bindings
from structir.passes.dead_code_elimination import dead_code_elimination
from structir.passes.manager.rules import rules_named
from structir.passes.manager.saturation import (
    COSTS,
    Options,
    SaturationReport,
    saturated,
    summary_of,
)
from structir.rewriting.egraph.saturation import Budget


@module_pass(idempotent="a limit of the first run may end before all rules have been applied")
def saturate(
    module: IRModule,
    *,
    rules: Any = "simplify",
    cost: Any = "seconds",
    sizes: str = "",
    nodes: NonNegative = 5000,
    iterations: NonNegative = 8,
    seconds: NonNegative = 0,
    exact: bool = False,
    report: Any = None,
) -> IRModule:
    """Applies rules in all orders at once (equality saturation), and keeps the cheapest result.

    `rules` are rules, or names of rules and groups in one string. `cost` is "seconds", "bytes",
    "operations" or "kernels" as estimated at `sizes`, such as "n=32 m=64" (other dims count as
    128), or a function that measures a function of the program. A result that is worse at sizes of
    1 or 1024 is not used. The limits are `nodes` more terms, `iterations`, and `seconds` (0: none).
    `exact` selects terms by integer programming where the block is small. A `SaturationReport`
    passed as `report` explains each result as a chain of rules.
    """
    if not callable(cost) and cost not in COSTS:
        message = (
            f"saturate: cost: expected a function or one of {', '.join(COSTS)}, found {cost!r}"
        )
        raise StructIRError(message, code="E0533")
    if report is not None and not isinstance(report, SaturationReport):
        message = f"saturate: report: expected a SaturationReport, found {report!r}"
        raise StructIRError(message, code="E0611")
    chosen = rules_named(rules)
    chosen_sizes = read_sizes(sizes)
    check_dims(chosen_sizes, sorted({symbol.name for symbol in symbols_in(module)}))
    record = SaturationReport() if report is None else report
    record.rules.update({rule.name: rule for rule in chosen})
    budget = Budget(nodes, iterations, seconds or None)
    options = Options(chosen, cost, chosen_sizes, budget, exact, record)
    after = saturated(module, options)
    for name, blocks in record.blocks.items():
        for block in blocks:
            if block.changed:
                note(f"{name}: {summary_of(block)}")
    if after is module:
        return module
    after = canonicalise_bindings.transform(after)
    return dead_code_elimination.transform(after)
