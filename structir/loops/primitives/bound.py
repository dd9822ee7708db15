"""Moves a test of a loop variable into the bounds of its loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.kernel import Apply, Branch, For, Kernel, Scalar
from structir.ir.node import replace
from structir.loops.schedule.edits import exchange
from structir.loops.schedule.loop_tree import LoopTree, loop_tree
from structir.loops.schedule.nests import depends_on
from structir.loops.schedule.primitive import primitive
from structir.loops.schedule.refusal import refusal
from structir.loops.schedule.regions import expression, extremum
from structir.projections.kernels.affine_scalars import conditions_of

LARGEST = 2**31  # of the constants in tests: sums with greater ones may wrap around


@primitive
def bound(kernel: Kernel, loop: str) -> Kernel:
    """Moves the tests of an `if` that is the only statement of a loop out of it.

    A test that bounds the loop variable becomes a bound of the loop; one that is the same in all
    iterations becomes an `if` around the loop. The other tests stay.
    """
    tree = loop_tree(kernel)
    old = tree.loop(loop)
    branch = old.body[0]
    if len(old.body) > 1 or not isinstance(branch, Branch) or _has_alternative(branch):
        raise refusal(
            "E1116",
            f"expected an `if` without `else` as the only statement of `{loop}`",
            ("loop", old),
            ("statement", branch),
            help=f'separate the statements first: `fission("{loop}", 1)`',
        )
    tests, around = list(_conjuncts(branch.test)), list[Scalar]()
    starts, stops = [old.start], [old.stop]
    while tests:  # later tests may be unsafe where an earlier one does not hold
        limits = _limits(tree, old, tests[0])
        if limits is None:
            break
        if not any(limits):
            around.append(tests[0])
        starts, stops = starts + limits[0], stops + limits[1]
        del tests[0]
    if not around and len(starts) == len(stops) == 1:
        raise refusal(
            "E1116",
            f"expected a test of `{loop}` against indices of outer loops and sizes",
            ("loop", old),
            ("test", branch),
            help=f"compare the loop variable: `if {loop} < n`",
        )
    body = (replace(branch, test=_all(tests)),) if tests else branch.then
    bounded = replace(old, start=_extreme("max", starts), stop=_extreme("min", stops), body=body)
    new = Branch(_all(around), (bounded,), (), branch.span) if around else bounded
    return exchange(kernel, old, new)


def _has_alternative(branch: Branch) -> bool:
    return bool(branch.otherwise)


def _conjuncts(test: Scalar) -> Iterator[Scalar]:
    if isinstance(test, Apply) and test.fn == "and":
        for arg in test.args:
            yield from _conjuncts(arg)
    else:
        yield test


def _all(tests: Sequence[Scalar]) -> Scalar:
    return reduce(lambda one, other: Apply("and", (one, other), "bool"), tests)


Limits = tuple[list[Scalar], list[Scalar]]  # starts and stops of a loop


def _limits(tree: LoopTree, loop: For, test: Scalar) -> Limits | None:
    """Returns the bounds of a loop that a test is: none if it is the same in all iterations, and
    None for other tests."""
    conditions = conditions_of(test, tree.values)
    if conditions is None or len(conditions) != 1 or loop.step < 1:
        return None
    condition = conditions[0]
    slack = _SLACK.get(condition.op)
    difference = condition.right - condition.left
    form = dims.linear(difference, tree.symbol(loop.variable))
    if form is None or not _is_small(difference):
        return None
    if form[0] == 0:
        return None if depends_on(test, loop.variable) else ([], [])
    if slack is None or not isinstance(form[0], int):
        return None
    least, sign = slack
    factor, rest = form[0] * sign, form[1] * sign - least  # factor * i + rest >= 0
    dim = {-1: rest + 1, 1: -rest}.get(factor)
    scalar = None if dim is None else expression(tree, dim)
    if scalar is None or (factor == 1 and loop.step > 1):
        return None
    return ([scalar], []) if factor == 1 else ([], [scalar])


# The least difference of the sides for which a comparison holds, and its sign.
_SLACK = {"lt": (1, 1), "le": (0, 1), "gt": (1, -1), "ge": (0, -1)}


def _is_small(dim: Dim) -> bool:
    constants = [dim] if isinstance(dim, int) else [dim.constant, *dim.terms.values()]
    return all(abs(constant) < LARGEST for constant in constants)


def _extreme(fn: str, ends: Sequence[Scalar]) -> Scalar:
    """Returns the extreme of some ends, as one application."""
    return extremum(fn, [part for end in ends for part in _operands(fn, end)])


def _operands(fn: str, end: Scalar) -> Iterator[Scalar]:
    if isinstance(end, Apply) and end.fn == fn and end.dtype == "int64":
        for arg in end.args:
            yield from _operands(fn, arg)
    else:
        yield end


bound.example(
    """
@I.kernel
def scale(x: R.Tensor(("n",), "float32"), out: R.Tensor(("n",), "float32")):
    n = T.int64()
    for i_0 in range(0, n, 64):
        for i in range(i_0, i_0 + 64):
            if i < n:
                out[i] = 2.0 * x[i]
""",
    "i",
)
