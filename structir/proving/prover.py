"""Proves that two programs are equal for all sizes: finds cases and changes of ranges."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from structir.analysis.substitution import Substitution
from structir.analysis.variables import walk as walk_nodes
from structir.errors import DiagnosticError
from structir.ir import dims
from structir.ir.axes import RowVar
from structir.ir.binding_dims import standing_alone
from structir.ir.dim_facts import Facts
from structir.ir.dims import Dim, Sym
from structir.ir.dtype import DTYPES, DtypeVar
from structir.ir.expr import Call, Function
from structir.ir.struct_info import StructInfo
from structir.proving.denotation import Denotation, Functions
from structir.proving.equations import ResultEquation
from structir.proving.kernel import Case, ProofKernel
from structir.proving.loops import Chooser
from structir.proving.parameters import dims_in_info, parameter
from structir.proving.proof import Proof, ProvedEquation
from structir.proving.ranks import RankInstance
from structir.proving.sums import TooLarge
from structir.proving.term_text import equation_text
from structir.proving.terms import NonNegative, NormalForm, walk
from structir.proving.values import PlainValue, TensorValue, TupleValue, Undecided, as_argument

RANKS = (0, 1, 2, 3)  # at which row variables are instantiated
MAX_AXIS = 6  # of attributes that name axes
MAX_CASES = 64
INDEX_NAMES = "ij"


@attrs.frozen(eq=False)
class Attempt:
    """The result of a search: a proof, or the reason and the smallest remaining equation."""

    proof: Proof | None
    reason: str = ""
    remaining: str = ""


@attrs.frozen(eq=False)
class RankedEquations:
    """The equations of two programs at ranks of row variables, with the sizes of the rows."""

    ranks: tuple[int, ...]
    sizes: list[tuple[Sym, ...]]
    equations: list[ResultEquation]


def prove_functions(
    before: Function,
    after: Function,
    functions: tuple[Functions, Functions] = ({}, {}),
    exact: bool = False,
) -> Attempt:
    """Searches for a proof that two functions are equal for all sizes and all arguments."""
    rows = _variables(before, RowVar)
    equations: list[ProvedEquation] = []
    instances: list[RankInstance] = []
    try:
        both = _with_required_sizes(before, aligned(before, after))
        for pair in _at_dtypes(*both):
            by_ranks = _by_ranks(*pair, rows, functions, exact)
            general, at_other_ranks = _general(by_ranks, rows)
            equations += [_prove(equation, exact) for equation in general]
            instances += at_other_ranks
    except _Failure as failure:
        return Attempt(None, str(failure.reason), failure.remaining)
    except (Undecided, DiagnosticError) as undecided:
        return Attempt(None, str(undecided).partition("\n")[0])
    except TooLarge:
        return Attempt(None, "the terms exceed the limits of the prover")
    except RecursionError:
        return Attempt(None, "the terms are nested too deeply")
    if not equations and not instances and rows:
        return Attempt(None, "the programs do not exist at rank 0 to 3 of their row variables")
    return Attempt(Proof(tuple(equations), _ranks_text(rows, instances), tuple(instances)))


def _ranks_text(rows: list[Any], instances: list[RankInstance]) -> str:
    names = ", ".join(map(str, rows))
    if not rows:
        return ""
    return f"{names} of any rank" if instances else f"{names} of rank {RANKS[0]} to {RANKS[-1]}"


class _Failure(Exception):
    """An equation is not proved."""

    def __init__(self, reason: str, remaining: str = "") -> None:
        super().__init__(reason)
        self.reason, self.remaining = reason, remaining


def _variables(function: Function, kind: type) -> list[Any]:
    bound = standing_alone([p.struct_info for p in function.params])
    return [variable for variable in bound if type(variable) is kind]


def _at_dtypes(before: Function, after: Function) -> Iterator[tuple[Function, Function]]:
    """Yields both functions at all dtypes of their dtype variables."""
    variables = _variables(before, DtypeVar)
    for dtypes in itertools.product(sorted(DTYPES), repeat=len(variables)):
        yield from _substituted(before, after, dict(zip(variables, dtypes, strict=True)))


def _with_required_sizes(before: Function, after: Function) -> tuple[Function, Function]:
    """Returns both functions with one variable for sizes of which the first one runs only if they
    are equal: an op that always runs checks them."""
    for binding in before.bindings():
        op = getattr(binding.value, "op", None)
        find = getattr(getattr(op, "definition", None), "assumptions", None)
        try:
            assumptions = find(binding.value) if find is not None else ()
        except DiagnosticError:
            continue
        for each in assumptions:
            values = {} if each.broadcasts else _solved(each.left, each.right)
            pairs = list(_substituted(before, after, values)) if values else []
            if pairs:
                return _with_required_sizes(*pairs[0])
    return before, after


def _solved(left: Any, right: Any) -> dict[Any, Any]:
    """Returns the value of a variable for which two sizes are equal; empty if none is alone."""
    for side, other in ((right, left), (left, right)):
        variable = dims.as_sym(side) if isinstance(side, dims.Poly) else None
        if variable is not None and variable not in dims.syms(other):
            return {variable: other}
    return {}


def _substituted(before: Function, after: Function, values: Any) -> Iterator[tuple[Any, Any]]:
    if not values:
        yield before, after
        return
    try:
        yield Substitution(dims=values).function(before), Substitution(dims=values).function(after)
    except DiagnosticError:
        return  # the programs do not exist at these ranks or dtypes


def _by_ranks(
    before: Function,
    after: Function,
    rows: list[Any],
    functions: tuple[Functions, Functions],
    exact: bool,
) -> list[RankedEquations]:
    """Returns the equations at the ranks at which the programs exist."""
    ranks = RANKS if len(rows) > 1 else range(max(RANKS[-1], *_axes((before, after))) + 1)
    result = []
    for lengths in itertools.product(ranks, repeat=len(rows)):
        sizes = [
            tuple([Sym(f"{r.name}{k}") for k in range(n)])
            for r, n in zip(rows, lengths, strict=True)
        ]
        values = {r: tuple(map(dims.as_dim, own)) for r, own in zip(rows, sizes, strict=True)}
        for pair in _substituted(before, after, values):
            result.append(RankedEquations(lengths, sizes, _equations_of(*pair, functions, exact)))
    return result


def _axes(functions: tuple[Function, Function]) -> Iterator[int]:
    """Yields a rank at which each axis that an attribute may name exists."""
    yield 0
    for call in [node for function in functions for node in walk_nodes(function)]:
        for value in call.attrs.values() if isinstance(call, Call) else ():
            numbers = value if isinstance(value, tuple) else (value,)
            yield from [abs(n) + 1 for n in numbers if type(n) is int and abs(n) < MAX_AXIS]


def _general(
    by_ranks: list[RankedEquations], rows: list[Any]
) -> tuple[list[ResultEquation], list[RankInstance]]:
    """Returns the equations at rank 1 with their instances at other ranks, if these are ones.

    What is no instance at rank 0 is an equation of its own. Otherwise returns all equations.
    """
    every = [equation for each in by_ranks for equation in each.equations]
    existing = {each.ranks: each for each in by_ranks}
    if not rows or not {*itertools.product(RANKS, repeat=len(rows))} <= existing.keys():
        return every, []
    first = existing[(1,) * len(rows)]
    general, instances = list(first.equations), []
    for each in by_ranks:
        least = existing[tuple([min(rank, 1) for rank in each.ranks])]
        of_first, of_least = _instances(first, each), _instances(least, each)
        if of_first is not None or of_least is not None:
            instances += of_first or of_least or []
        elif each is least:
            general += each.equations
        else:
            return every, []
    return general, instances


def _instances(general: RankedEquations, each: RankedEquations) -> list[RankInstance] | None:
    """Returns equations as instances of those at lower ranks, or None if one is none."""
    pairs = list(zip(general.sizes, each.sizes, strict=True))
    rows = {low[0]: high for low, high in pairs if low}
    if len(general.equations) != len(each.equations) or any(
        [high and not low for low, high in pairs]
    ):
        return None
    equations = zip(general.equations, each.equations, strict=True)
    instances = [RankInstance(a, b, rows) for a, b in equations]
    return instances if all([instance.check() for instance in instances]) else None


def aligned(before: Function, after: Function) -> Function:
    """Returns the second function with the dims of the parameters of the first."""
    if len(before.params) != len(after.params):
        raise _Failure(f"expected {len(before.params)} parameters, found {len(after.params)}")
    names: dict[Any, Any] = {}
    for first, second in zip(before.params, after.params, strict=True):
        _match(first.struct_info, second.struct_info, names)
    renamed = {
        new: old for new, old in names.items() if new is not dims.as_sym(old) and new is not old
    }
    result = Substitution(dims=renamed).function(after) if renamed else after
    for first, second in zip(before.params, result.params, strict=True):
        if first.struct_info != second.struct_info:
            raise _Failure(
                f"parameter {first.name}: expected {first.struct_info}, found {second.struct_info}"
            )
    return result


def _match(first: StructInfo, second: StructInfo, names: dict[Any, Any]) -> None:
    ours, theirs = (standing_alone([info]) for info in (first, second))
    pairs = list(zip(dims_in_info([first]), dims_in_info([second]), strict=False))
    for old, new in pairs:
        variable = dims.as_sym(new) if isinstance(new, dims.Poly) else None
        if variable is not None:
            names.setdefault(variable, old)
    for kind in (RowVar, DtypeVar):
        for old_name, new_name in zip(
            [v for v in ours if type(v) is kind],
            [v for v in theirs if type(v) is kind],
            strict=False,
        ):
            names.setdefault(new_name, (old_name,) if kind is RowVar else old_name)
    axes = getattr(first, "axes", None), getattr(second, "axes", None)
    for old_axis, new_axis in zip(axes[0] or (), axes[1] or (), strict=False):
        variable = dims.as_sym(new_axis) if isinstance(new_axis, dims.Poly) else None
        if variable is not None:
            names.setdefault(variable, old_axis)


def _equations_of(
    before: Function, after: Function, functions: tuple[Functions, Functions], exact: bool
) -> list[ResultEquation]:
    shared: dict[Any, Sym] = {}
    programs = [Denotation(each, exact, shared) for each in functions]
    args = [parameter(p.struct_info, (p.name,)) for p in before.params]
    values = [p.function(f, args, {}) for p, f in zip(programs, (before, after), strict=True)]
    _compare_checks(*programs)
    return list(_equations(values[0], values[1], "result"))


def _compare_checks(before: Denotation, after: Denotation) -> None:
    if before.checks != after.checks:
        raise _Failure("the programs check different conditions at run time")
    if not after.assumptions <= before.assumptions | before.checks:
        raise _Failure("the second program checks sizes at run time that the first does not check")
    if before.effects != after.effects:
        raise _Failure("the programs have different effects")


def _equations(left: Any, right: Any, name: str) -> Iterator[ResultEquation]:
    """Yields the equations of all results; raises if their structure differs."""
    if isinstance(left, TupleValue) and isinstance(right, TupleValue):
        if len(left.fields) != len(right.fields):
            raise _Failure(f"{name}: expected {len(left.fields)} fields, found {len(right.fields)}")
        for k, (a, b) in enumerate(zip(left.fields, right.fields, strict=True)):
            yield from _equations(a, b, f"{name}[{k}]")
        return
    if isinstance(left, TensorValue) and isinstance(right, TensorValue):
        _check_shapes(left, right, name)
        rank = len(left.dims)
        names = list(INDEX_NAMES[:rank]) if rank <= 2 else [f"i{axis}" for axis in range(rank)]
        loops = tuple([(Sym(n), d) for n, d in zip(names, left.dims, strict=True)])
        index = tuple([dims.as_dim(v) for v, _ in loops])
        yield ResultEquation(name, loops, left.at(index), right.at(index))
        return
    if isinstance(left, PlainValue) and isinstance(right, PlainValue):
        if not _same_plain(left.value, right.value):
            raise _Failure(f"{name}: {left.value} is not {right.value}")
        return
    if type(left) is not type(right) or as_argument(left) != as_argument(right):
        raise _Failure(f"{name}: a value of unknown structure")


def _same_plain(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same_plain, a, b))
    if isinstance(a, int | dims.Poly) and isinstance(b, int | dims.Poly):
        return dims.equal(a, b) is True
    return bool(a == b)


def _check_shapes(left: TensorValue, right: TensorValue, name: str) -> None:
    if left.dtype != right.dtype:
        raise _Failure(f"{name}: the dtype {left.dtype} is not {right.dtype}")
    same = len(left.dims) == len(right.dims) and all(
        [dims.equal(a, b) is True for a, b in zip(left.dims, right.dims, strict=True)]
    )
    if not same:
        raise _Failure(f"{name}: the shape {left.dims} is not provably {right.dims}")


def _prove(equation: ResultEquation, exact: bool) -> ProvedEquation:
    case = _cases(equation, Facts().bounded(equation.loops), exact, [MAX_CASES])
    chooser = Chooser()
    kernel = ProofKernel(chooser, exact)
    if not kernel.holds(equation.left, equation.right, Facts().bounded(equation.loops), case):
        raise _Failure("an equation is not stable", str(equation))
    laws = frozenset(kernel.laws)
    return ProvedEquation(equation, case, tuple(chooser.certificate), laws, exact)


def _cases(equation: ResultEquation, facts: Facts, exact: bool, budget: list[int]) -> Case:
    """Returns the cases in which an equation holds; raises with the remaining equation."""
    if facts.contradict:
        return None
    kernel = ProofKernel(Chooser(), exact)
    left, right = kernel.normal(equation.left, facts), kernel.normal(equation.right, facts)
    if left == right:
        return None
    bound = equation.loops
    condition = _condition(left, right, {v for v, _ in bound})
    budget[0] -= 1
    if condition is None or budget[0] < 0:
        rest = remaining(left, right)
        raise _Failure(_reason(*rest), equation_text(*rest, equation.loops))
    inside, outside = facts.assume(condition), facts.assume(-condition - 1)
    return (
        condition,
        _cases(equation, inside, exact, budget),
        _cases(equation, outside, exact, budget),
    )


def _condition(left: NormalForm, right: NormalForm, variables: set[Sym]) -> Dim | None:
    """Returns a condition on sizes and indices of the result that occurs in one of the sides."""
    free = left.free | right.free
    for term in walk((left, right)):
        if isinstance(term, NonNegative) and term.free <= free:
            return term.dim
    return None


def _reason(left: NormalForm, right: NormalForm) -> str:
    """Returns why an equation remains: rounding, values that are not finite, or other values."""
    sides = *left.terms, *right.terms
    if not sides or any([factor for _, factor in sides]):
        return "an equation remains"
    if all([any([getattr(a, "fn", "") == "rounded" for a in atoms]) for atoms, _ in sides]):
        return "the sides are equal over the reals, but numbers that cancel lose digits in one"
    return "the sides are equal for finite values, but one drops a value that may be NaN"


def remaining(left: NormalForm, right: NormalForm) -> tuple[NormalForm, NormalForm]:
    """Returns both sides without their common monomials, or arguments in which they differ."""
    for _ in range(8):
        ours, theirs = dict(left.terms), dict(right.terms)
        common = {m for m in ours if theirs.get(m) == ours[m]}
        left, right = [
            NormalForm(tuple([(m, c) for m, c in side.terms if m not in common]), side.dtype)
            for side in (left, right)
        ]
        inner = _inside(left, right)
        if inner is None:
            break
        left, right = inner
    return left, right


def _inside(left: NormalForm, right: NormalForm) -> tuple[NormalForm, NormalForm] | None:
    """Returns the arguments in which two calls of one function differ, if only these differ."""
    one, two = [
        [a for m, c in s.terms for a in m] if len(s.terms) == 1 else [] for s in (left, right)
    ]
    rest = [[a for a in one if a not in two], [a for a in two if a not in one]]
    if any([len(r) != 1 for r in rest]) or left.terms[0][1] != right.terms[0][1]:
        return None
    a, b = rest[0][0], rest[1][0]
    if type(a) is not type(b) or getattr(a, "fn", None) != getattr(b, "fn", None):
        return None
    parts: Sequence[tuple[Any, Any]] = list(
        zip(getattr(a, "args", ()), getattr(b, "args", ()), strict=False)
    )
    if hasattr(a, "body") and getattr(a, "variables", None) == getattr(b, "variables", None):
        parts = [(a.body, b.body)]
    different = [
        (x, y)
        for x, y in parts
        if isinstance(x, NormalForm) and isinstance(y, NormalForm) and x != y
    ]
    return different[0] if len(different) == 1 else None


def functions_of(module: Any) -> Mapping[str, Function]:
    """Returns the functions of a module by name."""
    return {name: f for name, f in module.functions.items() if isinstance(f, Function)}
