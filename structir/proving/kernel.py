"""The proof kernel: normal forms of terms, and equality of terms by cases.

The normal form of a number is a polynomial over atoms (elements, functions, folds) whose monomials
also contain conditions. A condition is 1 or 0, and where it is 0 it excludes what it multiplies.
Booleans are polynomials modulo 2, integers of w bits polynomials modulo 2**w, floats polynomials
over the reals. A float monomial that cancels stays with the factor 0, so that no operand
disappears. In exact mode the operations of floats have only the laws of every bit pattern.

How ranges of folds are changed is chosen by `choose`; the kernel checks each change.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from structir.ir import dims
from structir.ir.dim_facts import Facts
from structir.ir.dims import Dim, Poly, Sym
from structir.ir.dtype import is_float
from structir.proving.cancellation import cancelled, sum_of
from structir.proving.laws import law_of
from structir.proving.sums import (
    Monomials,
    TooLarge,
    add_to,
    alternatives,
    atom_of,
    bracket,
    by_key,
    by_values,
    collect,
    literal,
    lone,
    number_of,
    scaled,
    total_of,
    without_zeros,
)
from structir.proving.terms import (
    ApplyTerm,
    ElementTerm,
    Fold,
    LiteralTerm,
    NonNegative,
    NormalForm,
    ScalarTerm,
    SizeTerm,
    TableTerm,
    Unknown,
    dim_key,
    free_dims,
    identity_of,
    renamed,
    substituted,
    walk,
)

Loops = tuple[tuple[Sym, Dim], ...]
Case = Any  # None, or a condition with the cases in which it holds and fails
Change = tuple[Any, ...]  # the name of a rule of `CHANGES`, and its arguments
Choose = Callable[[str, Loops, NormalForm, Facts], "Change | None"]
POOL = {Sym(f"k{number}"): number for number in range(64)}  # canonical names of bound variables
NAMES = tuple(POOL)
FRESH = [Sym(f"v{number}") for number in range(1000)]
BUDGET = 20_000  # terms of one proof
COMBINE = {"max": "max", "min": "min", "any": "or", "all": "and", "sum": "add", "prod": "mul"}


class ProofKernel:
    """Normal forms of terms; `laws` are the names of the laws that were used."""

    def __init__(self, choose: Choose, exact: bool = False) -> None:
        self.choose, self.exact = choose, exact
        self.laws: set[str] = set()
        self.steps = self.variables = 0

    def holds(self, left: ScalarTerm, right: ScalarTerm, facts: Facts, case: Case = None) -> bool:
        """Returns whether two terms are equal at all points that satisfy the facts."""
        if case is None:
            return facts.contradict or self.normal(left, facts) == self.normal(right, facts)
        self.laws.add("cases")
        sides = zip((case[0], -case[0] - 1), case[1:], strict=True)
        return all([self.holds(left, right, facts.assume(dim), side) for dim, side in sides])

    def normal(self, term: ScalarTerm, facts: Facts) -> NormalForm:
        """Returns the normal form of a term at the points that satisfy the facts."""
        result: NormalForm | None = facts.memo.get(term)
        if result is None:
            self.steps += 1
            if self.steps > BUDGET:
                raise TooLarge
            result = facts.memo[term] = self._normal(term, facts)
        return result

    def _normal(self, term: ScalarTerm, facts: Facts) -> NormalForm:
        match term:
            case NormalForm():
                total: Monomials = {}
                for atoms, factor in sorted(term.terms, key=lambda item: not item[1]):
                    if not factor:  # what conditions exclude disappears, what cancelled remains
                        total = {m: c for m, c in total.items() if c}
                    factors = [self.normal(atom, facts) for atom in atoms]
                    add_to(total, self.product(factors, term.dtype, facts).terms, factor)
                return collect(total, term.dtype, [c for _, c in term.terms].count(0) > 0)
            case LiteralTerm(value):
                return literal(value, term.dtype, self.exact)
            case SizeTerm(dim):
                return self.size(facts.simplify(dim), term.dtype)
            case NonNegative(dim):
                return self.condition(facts.simplify(dim), facts)
            case ApplyTerm("select", (condition, then, otherwise)):
                return self.select(condition, then, otherwise, facts)
            case ApplyTerm(fn, args):
                return self.apply(fn, [self.normal(a, facts) for a in args], term.dtype, facts)
            case Fold():
                return self.fold(term, facts)
            case ElementTerm(source, index):
                at = tuple([facts.simplify(i) for i in index])
                return lone(ElementTerm(source, at, term.dtype))
            case Unknown(op, attributes, args, result, index):
                tables = [self.table(a, facts) if isinstance(a, TableTerm) else a for a in args]
                at = tuple([facts.simplify(i) for i in index])
                return lone(Unknown(op, attributes, tuple(tables), result, at, term.dtype))
        raise TypeError(f"expected a term, found {type(term).__name__}")

    def apply(self, fn: str, args: list[NormalForm], dtype: str, facts: Facts) -> NormalForm:
        """Returns a function of normal forms, by its law if it has one."""
        result = law_of[fn](self, fn, args, dtype, facts) if fn in law_of else None
        return lone(ApplyTerm(fn, tuple(args), dtype)) if result is None else result

    def size(self, dim: Dim, dtype: str) -> NormalForm:
        """Returns a dim as a number: a polynomial of its variables."""
        if not isinstance(dim, Poly):
            return literal(dim, dtype, self.exact)
        if self.exact and is_float(dtype):
            return lone(SizeTerm(dim, dtype))
        total: Monomials = {(): dim.constant} if dim.constant else {}
        for monomial, factor in dim.terms.items():
            atoms = [SizeTerm(Poly({(atom,): 1}, 0), dtype) for atom in monomial]
            add_to(total, [(tuple(sorted(atoms, key=by_key)), 1)], factor)
        return collect(total, dtype)

    def condition(self, dim: Dim, facts: Facts) -> NormalForm:
        """Returns `dim >= 0`: a truth value, or an atom or its negation."""
        if facts.entails(dim):
            return literal(1, "bool")
        if not isinstance(dim, Poly) or facts.entails(-dim - 1):
            return literal(0, "bool")
        common = math.gcd(*dim.terms.values())
        dim = Poly({m: c // common for m, c in dim.terms.items()}, dim.constant // common)
        if dim.constant >= 0:  # of a condition and its opposite, one has a constant >= 0
            return lone(NonNegative(dim))
        return collect({(): 1, (NonNegative(-dim - 1),): 1}, "bool")

    def product(self, factors: list[NormalForm], dtype: str, facts: Facts) -> NormalForm:
        """Returns a product by distribution; conditions among numbers are 0 or 1."""
        total: Monomials = {(): 1}
        for factor in factors:
            terms = (bracket(factor) if factor.dtype == "bool" != dtype else factor).terms
            if len(total) > 1 and len(terms) > 1:
                self.laws.add("distributivity")
            if not terms and is_float(factor.dtype) and not self.exact:
                terms = (((), 0),)  # the other factors remain, with the factor 0
            product: Monomials = {}
            for (a, x), (b, y) in itertools.product(by_values(total.items()), by_values(terms)):
                part: Monomials = {}
                for (c, n), (d, m) in itertools.product(x, y):
                    atoms = self.monomial((*a, *b, *c, *d), dtype, facts)
                    if atoms is not None:
                        add_to(part, [(atoms, n)], m)
                if all([n for _, n in (*x, *y)]):  # conditions that exclude each other vanish
                    part = {monomial: c for monomial, c in part.items() if c}
                lost = cancelled(product, part.items(), dtype, facts)
                add_to(product, [*part.items(), *lost], 1)
            total = product
        return collect(without_zeros(total), dtype)

    def monomial(self, atoms: tuple[ScalarTerm, ...], dtype: str, facts: Facts) -> Any:
        """Returns the sorted atoms of a product; None if its conditions exclude each other."""
        conditions = list(dict.fromkeys([a for a in atoms if a.dtype == "bool"]))
        affine = [c for c in conditions if isinstance(c, NonNegative)]
        for c in affine if len(affine) > 1 else ():
            others = [o.dim for o in affine if o is not c and o in conditions]
            context = Facts(facts.extents.items(), (*facts.known, *others))
            if context.entails(-c.dim - 1):
                return None
            if context.entails(c.dim):
                conditions.remove(c)
        numbers = [a for a in atoms if a.dtype != "bool"]
        powers = [a for a in numbers if isinstance(a, ApplyTerm) and a.fn == "exp"]
        if len(powers) > 1 and not self.exact:
            self.laws.add("product of exponentials")
            exponent = sum_of([a.args[0] for a in powers], dtype, facts)
            numbers = [a for a in numbers if a not in powers]
            numbers += self.apply("exp", [exponent], dtype, facts).terms[0][0]
        return tuple(sorted([*conditions, *numbers], key=by_key))

    def select(self, condition: Any, then: Any, otherwise: Any, facts: Facts) -> NormalForm:
        """Returns a choice as `condition * then + (1 - condition) * otherwise`."""
        where = self.normal(condition, facts)
        if where.dtype != "bool":
            where = self.apply("ne", [where, literal(0, where.dtype)], "bool", facts)
        if number_of(where) is not None:
            return self.normal(then if where.terms else otherwise, facts)
        other, inside, outside = total_of([where, literal(1, "bool")], "bool"), facts, facts
        only, opposite = atom_of(where), atom_of(other)
        if isinstance(only, NonNegative):
            inside, outside = facts.assume(only.dim), facts.assume(-only.dim - 1)
        elif isinstance(opposite, NonNegative):
            inside, outside = facts.assume(-opposite.dim - 1), facts.assume(opposite.dim)
        a, b = self.normal(then, inside), self.normal(otherwise, outside)
        self.laws.add("choice")
        if a == b:
            return a
        parts = [self.product([where, a], a.dtype, facts), self.product([other, b], a.dtype, facts)]
        return total_of(parts, a.dtype)

    # ---- loops

    def table(self, table: TableTerm, facts: Facts) -> TableTerm:
        """Returns a tensor in normal form, with canonical names of its index variables."""
        loops, body = self.opened(table.variables, table.body, facts)
        bounds, body = self.named(loops, self.normal(body, facts.bounded(loops)), facts)
        return TableTerm(bounds, body, table.dtype)

    def opened(self, variables: Loops, body: Any, facts: Facts) -> tuple[Loops, Any]:
        """Returns loops with new variables, and their body."""
        fresh = {v: FRESH[self.variables + k] for k, (v, _) in enumerate(variables)}
        self.variables += len(fresh)
        if self.variables > len(FRESH) - len(NAMES):
            raise TooLarge
        return tuple([(fresh[v], facts.simplify(e)) for v, e in variables]), renamed(body, fresh)

    def named(self, loops: Loops, body: NormalForm, facts: Facts) -> tuple[Loops, NormalForm]:
        """Returns loops with canonical names: the first ones that no inner loop has."""
        bound = [POOL.get(v, -1) for t in walk(body) for v, _ in getattr(t, "variables", ())]
        free = [n for n in NAMES[max(bound, default=-1) + 1 :] if n not in body.free]
        if len(free) < len(loops):
            raise TooLarge
        names = dict(zip([v for v, _ in loops], free, strict=False))
        bounds = tuple([(names[v], extent) for v, extent in loops])
        return bounds, self.normal(renamed(body, names), facts.bounded(bounds))

    def fold(self, fold: Fold, facts: Facts) -> NormalForm:
        """Returns a reduction in normal form."""
        loops, body = self.opened(fold.variables, fold.body, facts)
        monoid, dtype = fold.monoid, fold.dtype
        if 0 in [extent for _, extent in loops]:
            return self.normal(identity_of(monoid, dtype), facts)
        body = substituted(body, {v: 0 for v, extent in loops if extent == 1})
        loops = tuple([(v, extent) for v, extent in loops if extent != 1])
        value = self.normal(body, facts.bounded(loops))
        if not loops and monoid in COMBINE:
            return value
        if monoid not in COMBINE or (self.exact and is_float(dtype)):
            return lone(Fold(monoid, *self.named(loops, value, facts), dtype))
        if (changed := self.change("any", monoid, loops, value, dtype, facts)) is not None:
            return changed
        if monoid == "any" and (members := alternatives(value)):
            self.laws.add("disjunction")
            parts = [self.of_product("any", loops, atoms, dtype, facts) for atoms in members]
            return self.apply("or", parts, dtype, facts)
        if monoid != "sum":
            return self.closed(monoid, loops, value, dtype, facts)
        self.laws.add("linearity of sums")
        sums = [(self.of_product("sum", loops, atoms, dtype, facts), c) for atoms, c in value.terms]
        return sum_of([scaled(addend, factor) for addend, factor in sums], dtype, facts)

    def change(
        self, stage: str, monoid: str, loops: Loops, value: NormalForm, dtype: str, facts: Facts
    ) -> NormalForm | None:
        """Returns the fold over ranges that `choose` changes; checks the change."""
        choice = self.choose(stage, loops, value, facts)  # the ranges may be empty
        if choice is None:
            return None
        rule, *arguments = choice
        ranges = CHANGES[rule](loops, value, facts, *arguments)
        if ranges is None:
            raise TooLarge
        self.laws.add(rule)
        parts = [self.fold(Fold(monoid, bounds, body, dtype), facts) for bounds, body in ranges]
        return parts[0] if len(parts) == 1 else self.apply(COMBINE[monoid], parts, dtype, facts)

    def of_product(
        self, monoid: str, loops: Loops, atoms: Any, dtype: str, facts: Facts
    ) -> NormalForm:
        """Returns the sum (or `any`) of a monomial: independent groups of factors are factors."""
        flat: list[ScalarTerm] = []
        for atom in atoms:
            if _is_product_fold(atom, monoid) and atom.free & {v for v, _ in loops}:
                self.laws.add("nested sums")
                inner, body = self.opened(atom.variables, atom.body, facts)
                loops, flat = (*loops, *inner), [*flat, *body.terms[0][0]]
            else:
                flat.append(atom)
        factors: list[NormalForm] = []
        while flat:
            group, names = {flat[0]}, flat[0].free & {v for v, _ in loops}
            while more := [a for a in flat if a not in group and a.free & names]:
                group.update(more)
                names |= frozenset().union(*[a.free for a in more]) & {v for v, _ in loops}
            members = tuple([a for a in flat if a in group])
            flat = [a for a in flat if a not in group]
            own = tuple([loop for loop in loops if loop[0] in names])
            loops = tuple([loop for loop in loops if loop[0] not in names])
            if own:
                body = NormalForm(((members, 1),), dtype)
                factors.append(self.closed(monoid, own, body, dtype, facts))
            else:
                factors += [lone(a) for a in members]
        self.laws.add("independent factors")
        for _, extent in loops:  # of which nothing depends
            counted = self.size(extent, dtype) if monoid == "sum" else None
            factors.append(counted or self.condition(extent - 1, facts))
        return self.product(factors, dtype, facts)

    def closed(
        self, monoid: str, loops: Loops, value: NormalForm, dtype: str, facts: Facts
    ) -> NormalForm:
        """Returns a fold over a set of loops, with their ranges and order changed by choice."""
        atom = atom_of(value)
        if monoid in ("max", "min") and isinstance(atom, ApplyTerm) and atom.fn == monoid:
            parts = [self.closed(monoid, loops, p, dtype, facts) for p in atom.args]
            return self.apply(monoid, parts, dtype, facts)
        if isinstance(atom, Fold) and atom.monoid == monoid and monoid != "sum":
            self.laws.add("nested folds")
            inner, body = self.opened(atom.variables, atom.body, facts)
            return self.fold(Fold(monoid, (*loops, *inner), body, dtype), facts)
        if monoid in ("max", "min", "any", "all"):
            loops = tuple([(v, e) for v, e in loops if v in value.free or not facts.entails(e - 1)])
            if not loops:
                return value
        changed = self.change("set", monoid, loops, value, dtype, facts)
        if changed is not None:
            return changed
        same = sorted(loops, key=lambda loop: dim_key(loop[1]))
        extents = [dim_key(e) for _, e in same]
        orders = itertools.permutations(same) if len(loops) < 5 else [tuple(same)]
        named = [
            Fold(monoid, *self.named(order, value, facts), dtype)
            for order in orders
            if [dim_key(e) for _, e in order] == extents
        ]
        return lone(min(named, key=by_key))


def _is_product_fold(atom: ScalarTerm, monoid: str) -> bool:
    """Whether an atom is a fold over one monomial with the factor 1."""
    return (
        isinstance(atom, Fold) and atom.monoid == monoid and [c for _, c in atom.body.terms] == [1]
    )


def _without(loops: Loops, *variables: Sym) -> Loops:
    return tuple([loop for loop in loops if loop[0] not in variables])


def _split(
    loops: Loops, value: NormalForm, facts: Facts, v: Sym, by: Dim, high: Sym, low: Sym
) -> Any:
    """Splits the range of `v = by * high + low`."""
    count = dims.exact_quotient(dict(loops)[v], by)
    if count is None or {high, low} & value.free:
        return None
    at = dims.as_dim(high) * by + dims.as_dim(low)
    return [((*_without(loops, v), (high, count), (low, by)), substituted(value, {v: at}))]


def _cut(loops: Loops, value: NormalForm, facts: Facts, v: Sym, first: Dim) -> Any:
    """Splits the range of `v` into `v < first` and the rest."""
    rest = dict(loops)[v] - first
    if free_dims(first) & dict(loops).keys() or not (facts.entails(first) and facts.entails(rest)):
        return None
    shifted = substituted(value, {v: dims.as_dim(v) + first})
    return [((*_without(loops, v), (v, first)), value), ((*_without(loops, v), (v, rest)), shifted)]


def _merge(loops: Loops, value: NormalForm, facts: Facts, a: Sym, b: Sym, whole: Sym) -> Any:
    """Merges two ranges whose variables occur as `whole = extent(b) * a + b` only."""
    extents = dict(loops)
    body = substituted(value, {b: dims.as_dim(whole) - extents[b] * dims.as_dim(a)})
    if a in body.free or whole in value.free:
        return None
    return [((*_without(loops, a, b), (whole, extents[a] * extents[b])), body)]


def _reverse(loops: Loops, value: NormalForm, facts: Facts, v: Sym) -> Any:
    """Reverses the range of a variable."""
    return [(loops, substituted(value, {v: dict(loops)[v] - 1 - dims.as_dim(v)}))]


CHANGES: dict[str, Callable[..., Any]] = {
    "split range": _split,
    "cut range": _cut,
    "merged ranges": _merge,
    "reversed range": _reverse,
}
