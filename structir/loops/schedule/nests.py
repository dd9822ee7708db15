"""Preconditions that several primitives share: on loop nests, their bounds and their exits."""

from __future__ import annotations

from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.kernel import Break, For, KernelStatement, Local
from structir.loops.schedule.accesses import Access, mentions_of
from structir.loops.schedule.accesses import expressions as expressions_of
from structir.loops.schedule.loop_tree import LoopTree, jumps
from structir.loops.schedule.refusal import refusal


def refuse_jumps(loop: For, also_continue: bool = False) -> None:
    """Raises ScheduleError if a loop has a `break`, or with `also_continue` a `continue`."""
    jump = jumps(loop.body, Break) or (jumps(loop.body) if also_continue else None)
    if jump is not None:
        raise refusal(
            "E1116",
            f"expected a loop that runs all its iterations, found a `{jump}`",
            ("loop", loop),
            ("jump", jump),
            help="replace it by an `if` around the statements that it skips",
        )


def refuse_varying_bounds(tree: LoopTree, loop: For, within: For | None = None) -> None:
    """Raises ScheduleError if the bounds of a loop are not invariant in the loop.

    With `within`, they must be invariant in that outer loop.
    """
    outer = loop if within is None else within
    bounds = {mention.memory for mention in mentions_of(loop)}
    for access in tree.accesses(outer.body) if bounds else ():
        if access.is_write and access.memory in bounds:
            raise refusal(
                "E1117",
                f"the bounds of `{loop.variable.name}` change while `{outer.variable.name}` runs",
                ("bounds", loop),
                ("write", access.statement),
                help="assign the bound to a scalar before the loop",
            )


def only_loop_in(loop: For) -> For:
    """Returns the loop that is perfectly nested in another one; raises ScheduleError if none is."""
    inner = loop.body[0] if len(loop.body) == 1 else None
    if isinstance(inner, For):
        return inner
    name = loop.variable.name
    other = next((s for s in loop.body if not isinstance(s, For)), (loop, *loop.body)[-1])
    raise refusal(
        "E1116",
        f"expected one loop as the only statement of `{name}`, found {len(loop.body)} statements",
        ("loop", loop),
        ("statement", other),
        help=f'separate the statements first: `fission("{name}", 1)`',
    )


def refuse_dependent_bounds(outer: For, inner: For) -> None:
    """Raises ScheduleError if the bounds of the inner loop depend on the outer variable."""
    if any(depends_on(bound, outer.variable) for bound in (inner.start, inner.stop)):
        raise refusal(
            "E1116",
            f"the bounds of `{inner.variable.name}` depend on `{outer.variable.name}`",
            ("outer", outer),
            ("inner", inner),
            help="write constant bounds and an `if` in the inner loop",
        )


def depends_on(scalar: object, variable: Local) -> bool:
    """Whether an expression contains a variable."""
    return any(part is variable for part in expressions_of(scalar))


def dependence(
    message: str, pair: tuple[Access, Access], help: str, code: str = "E1117"
) -> Exception:
    """Returns the refusal for a dependence between two accesses that a primitive would violate."""
    first, second = pair
    words = ["write" if access.is_write else "read" for access in pair]
    return refusal(
        code,
        f"{message}: both access `{first.memory.name}`",
        (words[0], first.statement),
        (words[1], second.statement),
        help=help,
    )


def following(block: tuple[KernelStatement, ...], statement: KernelStatement) -> int:
    """Returns the index of a statement in its block."""
    return next(i for i, each in enumerate(block) if each is statement)


def iterations_at_most(tree: LoopTree, loop: For) -> Dim:
    """Returns an upper bound of the trip count, in terms of sizes of the kernel."""
    start = tree.index(loop.start)
    for high in tree.highs(loop) if start is not None and loop.step == 1 else ():
        extent = high - start  # type: ignore[operator]
        if tree.is_size(extent) and dims.at_least(extent, 0):
            return extent
    name = loop.variable.name
    raise refusal(
        "E1116",
        f"expected a loop whose number of iterations has a bound, found {loop.start} to "
        f"{loop.stop} in steps of {loop.step}",
        loop,
        help=f'split it first, `split("{name}", 64)`, and name `{name}`',
    )
