"""Describes the kernels of a function, before compilation or in an executable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from structir.batching.combinators import expanded
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.loops.fusion.group import Group
from structir.loops.kernel.as_kernel import shown_kernel
from structir.loops.kernel.schedule import Scheduled
from structir.loops.lower.as_scalar import NotShown
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import NoKernelError
from structir.loops.program.kernel_text import KernelText
from structir.rewriting.call_inlining import inline_calls
from structir.runtime.executable import Executable
from structir.runtime.plans.plan import owned_results
from structir.runtime.program import HostProgram
from structir.runtime.source import PlanSource


@attrs.frozen(eq=False)
class KernelOutline:
    """One kernel: its group of stages, its source, and its `I.kernel` form if there is one."""

    text: KernelText
    group: Group
    source: str
    shown: str | None


@attrs.frozen(eq=False)
class Outline:
    """The kernels of one function in execution order, and its fusion decisions. A decision is the
    producer, the consumer and the reason."""

    kernels: tuple[KernelOutline, ...]
    decisions: tuple[tuple[str, str, str], ...]


def outline(module: IRModule, name: str) -> Outline:
    """Returns the kernels that a function will have, without compiling."""
    module = expanded(module)
    function = module[name]
    program = HostProgram(
        {n: k for n, k in module.functions.items() if isinstance(k, Kernel) and k.blocks is None},
        omits_layers=False,
    )
    if program.whole_with_calls(function, lambda: inline_calls(module)[name]) is None:
        program.function(function)
    recipes = [region.recipe(bool(region.boundary.equal)) for region in program.regions]
    return _outline([plan for recipe in recipes if (plan := recipe.scheduled)])


def outline_of(executable: Executable, name: str) -> Outline:
    """Returns the kernels of a function of an executable."""
    plans = executable.plans(name)
    schedules = [plan.recipe.scheduled for plan in plans]
    if None not in schedules:
        return _outline([scheduled for scheduled in schedules if scheduled])
    regenerated = outline(executable.module, name)  # the cache does not store fusion decisions
    texts = [text for plan in plans for text in plan.texts]
    pairs = zip(regenerated.kernels, texts, strict=False)
    return attrs.evolve(
        regenerated, kernels=tuple([attrs.evolve(k, text=text) for k, text in pairs])
    )


def _outline(plans: Sequence[Scheduled]) -> Outline:
    kernels = [kernel for plan in plans for kernel in _kernels(plan)]
    decisions = [
        (decision.producer.origin, decision.reader.origin, decision.reason)
        for plan in plans
        for decision in plan.decisions
    ]
    return Outline(tuple(kernels), tuple(dict.fromkeys(decisions)))


def _kernels(plan: Scheduled) -> Iterator[KernelOutline]:
    owned: tuple[Buffer, ...] = owned_results(plan.program.outputs)
    sources = PlanSource(plan.kernels, owned).parts()
    for text, group, source in zip(plan.kernels, plan.made_from, sources, strict=True):
        yield KernelOutline(text, group, source, _shown(group))


def _shown(group: Group) -> str | None:
    try:
        return str(shown_kernel([group], "kernel").kernel)
    except (NotShown, NoKernelError):
        return None
