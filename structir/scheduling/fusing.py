"""Fuses the kernels of two calls of a program to one kernel, or explains why this is illegal."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import attrs

from structir.analysis.kernel_calls import bind_kernel
from structir.analysis.purity import is_pure_value
from structir.analysis.variables import variables_in, walk
from structir.errors import Diagnostic
from structir.ir.expr import (
    Binding,
    BindingBlock,
    Call,
    Expr,
    Function,
    GlobalVar,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from structir.ir.kernel import For, Kernel, KernelStatement
from structir.ir.node import rebuild, replace
from structir.ir.struct_info import TupleStructInfo
from structir.loops.handle import KernelHandle
from structir.loops.schedule.joining import JoinedUse, KernelUse, joined
from structir.loops.schedule.refusal import ScheduleError, refusal
from structir.scheduling.dataflow import origin


@attrs.frozen(eq=False)
class KernelCallSite:
    """A call of a kernel in a block, and the bindings of its results."""

    binding: Binding
    items: tuple[Binding, ...]  # fields of a tuple of results
    results: tuple[Var, ...]

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """The call and the bindings of its results."""
        return (self.binding, *self.items)


@attrs.frozen(eq=False)
class FusedCalls:
    """A function in which one call replaces those of two kernels, and the new kernel."""

    function: Function
    kernel: Kernel
    first: Kernel  # the kernel whose statements come first in it


def fuse_calls(
    function: Function, ends: Sequence[tuple[Binding, Kernel, str]], name: str
) -> FusedCalls:
    """Returns the function with one call for two: each is a binding, its kernel, and its ops."""
    if ends[0][0] is ends[1][0]:
        raise _refusal("expected two different kernels", ends, "name another value")
    block = _block_of(function, ends)
    if block.bindings.index(ends[0][0]) > block.bindings.index(ends[1][0]):
        ends = ends[::-1]
    first, second = (_call_site(block, binding) for binding, _, _ in ends)
    before, after = _order(block, first, second, ends)
    read = _read_outside(function, {*first.bindings, *second.bindings})
    kept = {var for var in first.results if var in read or first.binding.var in read}
    uses = [_use(site, kernel) for site, (_, kernel, _) in zip((first, second), ends, strict=True)]
    joined_use = joined(uses[0], uses[1], kept, name)
    new = (*before, *_new_bindings(joined_use, (first, second), read), *after)
    changed = replace(block, bindings=new)
    return FusedCalls(_with_block(function, block, changed), joined_use.kernel, ends[0][1])


def fuse_loops(handle: KernelHandle, first: Kernel, count: int) -> None:
    """Fuses nested loops of a joined kernel: the last ones of the first kernel and the first ones
    after them."""
    number = len(_loops(first.body))
    outer = _loops(handle.node.body)
    sides = outer[:number], outer[number:]
    for _ in range(count):
        if not sides[0] or not sides[1]:
            raise refusal(
                "E1116",
                f"expected {count} nested loops in both kernels",
                ("fused kernel", handle.node),
                help="omit `loops`, or pass `loops=0`",
            )
        one, other = sides[0][-1], sides[1][0]
        handle.fuse(one.variable.name, other.variable.name)
        sides = _loops(one.body), _loops(other.body)


def _loops(block: Sequence[KernelStatement]) -> list[For]:
    return [statement for statement in block if isinstance(statement, For)]


def _block_of(function: Function, ends: Sequence[tuple[Binding, Kernel, str]]) -> BindingBlock:
    blocks = [node for node in walk(function) if isinstance(node, BindingBlock)]
    homes = [next(b for b in blocks if end[0] in b.bindings) for end in ends]
    if homes[0] is not homes[1]:
        message = "the kernels are called in different blocks of the program"
        raise _refusal(message, ends, "call both kernels in one block")
    return homes[0]


def _call_site(block: BindingBlock, binding: Binding) -> KernelCallSite:
    """Returns a call with the bindings of its results; results without one get new variables."""
    infos = binding.value.sinfo_args  # type: ignore[attr-defined]
    if not isinstance(binding.var.struct_info, TupleStructInfo):
        return KernelCallSite(binding, (), (binding.var,))
    items = [
        each
        for each in block.bindings
        if isinstance(each.value, TupleGetItem) and each.value.tuple_value is binding.var
    ]
    fields = {each.value.index: each.var for each in items}  # type: ignore[attr-defined]
    names = [f"{binding.var.name}_{k}" for k in range(len(infos))]
    results = [
        fields.get(k, replace(binding.var, name=name, struct_info=info))
        for k, (name, info) in enumerate(zip(names, infos, strict=True))
    ]
    return KernelCallSite(binding, tuple(items), tuple(results))


def _order(
    block: BindingBlock,
    first: KernelCallSite,
    second: KernelCallSite,
    ends: Sequence[tuple[Binding, Kernel, str]],
) -> tuple[list[Binding], list[Binding]]:
    """Returns the bindings before and after the fused call; refuses a binding between both calls
    that depends on the first one, and on which the second one depends."""
    own = {*first.bindings, *second.bindings}
    start, stop = (block.bindings.index(site.binding) for site in (first, second))
    depends: dict[Expr, Binding] = {}  # on the first call, by variable
    known: set[Expr] = {each.var for each in first.bindings}
    early, late = list(block.bindings[:start]), []
    for each in block.bindings[start + 1 : stop]:
        if each in own:
            continue
        if any(var in known or var in depends for var in variables_in(each.value)):
            depends[each.var] = each
            late.append(each)
        else:
            early.append(each)
    between = next((depends[v] for v in variables_in(second.binding.value) if v in depends), None)
    between = between or next((each for each in late if _is_ordered(each)), None)
    if between is not None:
        message = f"`{origin(between)}` is computed from the first kernel, before the second one"
        raise _refusal(message, ends, "fuse the kernels that this value needs first", between)
    tail = [each for each in block.bindings[stop + 1 :] if each not in own]
    return early, late + tail


def _is_ordered(binding: Binding) -> bool:
    """Whether a binding has effects, or checks sizes that later ones assume."""
    return isinstance(binding, MatchCast) or not is_pure_value(binding.value)


def _read_outside(function: Function, removed: Collection[Binding]) -> set[Var]:
    """Returns the variables that are read elsewhere than in some bindings."""
    read: set[Var] = set()
    for seq in [node for node in walk(function) if isinstance(node, SeqExpr)]:
        for each in seq.bindings():
            if each not in removed:
                read |= variables_in(each).keys() - {each.var}
        read |= variables_in(seq.body).keys()
    return read


def _use(site: KernelCallSite, kernel: Kernel) -> KernelUse:
    call = site.binding.value
    assert isinstance(call, Call)
    infos = [*[arg.struct_info for arg in call.args], *call.sinfo_args]
    sizes = bind_kernel(kernel.struct_info, infos).sizes
    return KernelUse(kernel, call.args, site.results, sizes)


def _new_bindings(
    joined_use: JoinedUse, sites: Sequence[KernelCallSite], read: Collection[Var]
) -> list[Binding]:
    """Returns the call of the new kernel, and bindings of the results of the former calls."""
    callee = GlobalVar(joined_use.kernel.name, joined_use.kernel.struct_info)
    infos = tuple([var.struct_info for var in joined_use.results])
    if len(infos) == 1:
        call = Call(callee, joined_use.args, sinfo_args=infos, struct_info=infos[0])
        bindings: list[Binding] = [VarBinding(joined_use.results[0], call)]
    else:
        info = TupleStructInfo(infos)
        call = Call(callee, joined_use.args, sinfo_args=infos, struct_info=info)
        fused = replace(joined_use.results[0], name="fused", struct_info=info)
        bindings = [VarBinding(fused, call)]
        fields = [
            (var, TupleGetItem(fused, k, infos[k])) for k, var in enumerate(joined_use.results)
        ]
        bindings += [VarBinding(var, field) for var, field in fields]
    for site in sites:
        if site.results[0] is not site.binding.var and site.binding.var in read:
            value = Tuple(site.results)
            bindings.append(VarBinding(site.binding.var, value))
    return bindings


def _with_block(function: Function, old: BindingBlock, new: BindingBlock) -> Function:
    def visit(part: object) -> object:
        if part is old:
            return new
        return rebuild(part, visit) if isinstance(part, Expr | Binding | BindingBlock) else part

    changed = visit(function)
    assert isinstance(changed, Function)
    return changed


def _refusal(
    message: str,
    ends: Sequence[tuple[Binding, Kernel, str]],
    help: str,
    *others: Binding,
) -> ScheduleError:
    diagnostic = Diagnostic(message, None, "fuse", code="E1123", hint=help)
    for other in others:
        diagnostic = diagnostic.note(f"between: `{other}`", other.value.span or other.span)
    return located(ScheduleError(diagnostic), ends)


def located(error: ScheduleError, ends: Sequence[tuple[Binding, Kernel, str]]) -> ScheduleError:
    """Returns a refusal with the ops of both kernels."""
    (diagnostic,) = error.diagnostics
    for label, (binding, _, ops) in zip(("first", "second"), ends, strict=True):
        diagnostic = diagnostic.note(f"{label} kernel: {ops}", binding.span or binding.value.span)
    return ScheduleError(diagnostic)
