"""E-graphs: classes of equal terms, closed under congruence, with the StructInfo of each class.

The union-find is as in egg (Willsey et al., 2021): terms are added by hash-consing, and congruence
is restored after each batch of merges. A second forest records the reason of every merge, for
explanations (Nieuwenhuis and Oliveras, 2005).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import attrs

from structir.analysis.calls import are_disjoint
from structir.analysis.deduction import deduce
from structir.analysis.lattice import PASS, base_check, greatest_lower_bound
from structir.analysis.variables import symbols_in
from structir.errors import Diagnostic, PassError, StructInfoError
from structir.ir.expr import Constant, Expr, Tuple, Var
from structir.ir.struct_info import StructInfo
from structir.rewriting.egraph.terms import Term, label_of, with_operands


@attrs.frozen(eq=False)
class RuleEquation:
    """An application of a rule: the matched term, the replacement, and the bound variables."""

    rule: str
    left: int
    right: int
    bound: dict[str, Any]
    index: int | None = None  # among the parallel calls that the rule rewrites together


Reason = RuleEquation | None  # None: equal operands


@attrs.define(eq=False)
class EClass:
    """Equal terms, the terms with one of them as operand, and what is known of their value."""

    members: list[int]
    users: list[int]
    info: StructInfo


@attrs.frozen
class MergeLink:
    """A merge in the forest of reasons: from a term to `target`; `forward` from left to right."""

    target: int
    reason: Reason
    forward: bool


class EGraph:
    """A set of terms and the equalities among them. A term is identified by its number."""

    def __init__(self) -> None:
        self.terms: list[Term] = []
        self.classes: dict[int, EClass] = {}
        self.binders: dict[Any, int] = {}  # the term that binds a symbolic dim
        self.by_op: dict[Any, list[int]] = {}  # calls by definition of the op
        self.members: set[int] = set()  # the terms, without those of equal operands
        self.touched: set[int] = set()  # terms whose classes have changed
        self._parents: list[int] = []  # of the union-find
        self._links: list[MergeLink | None] = []
        self._exact: dict[Hashable, int] = {}
        self._congruent: dict[Hashable, int] = {}
        self._merged: list[int] = []
        self._refined: list[int] = []
        self._variables: dict[int, Var] = {}  # stands for a term in guards and replacements
        self.numbers: dict[Var, int] = {}

    # Terms

    def find(self, term: int) -> int:
        """Returns the number of the class of a term."""
        parents = self._parents
        while parents[term] != term:
            parents[term] = parents[parents[term]]
            term = parents[term]
        return term

    def class_of(self, term: int) -> EClass:
        """Returns the class of a term."""
        return self.classes[self.find(term)]

    def info(self, term: int) -> StructInfo:
        """Returns the StructInfo of the class of a term."""
        return self.class_of(term).info

    def add(self, value: Expr, children: tuple[int, ...] = ()) -> int:
        """Returns the number of a term over other terms, which is added if it is new."""
        label = label_of(value)
        exact = (label, children)
        number = self._exact.get(exact)
        if number is None:
            number = self._exact[exact] = len(self.terms)
            self.terms.append(Term(label, children, value))
            self._parents.append(number)
            self._links.append(None)
            self.classes[number] = EClass([number], [], self._deduced(number))
            self.touched.add(number)
            self._connect(number)
        return number

    def add_atom(self, value: Expr) -> int:
        """Returns the number of a constant, a size or a variable.

        It depends on the terms that bind its symbolic dims.
        """
        if not self.binders or isinstance(value, Var):
            return self.add(value)
        used = [self.binders[symbol] for symbol in symbols_in(value) if symbol in self.binders]
        return self.add(value, tuple(dict.fromkeys(used)))

    def _connect(self, number: int) -> None:
        """Enters a new term among the users of its operands, and in the class of an equal one."""
        term = self.terms[number]
        for child in dict.fromkeys(map(self.find, term.children)):
            self.classes[child].users.append(number)
        definition = getattr(getattr(term.value, "op", None), "definition", None)
        if definition is not None:
            self.by_op.setdefault(definition, []).append(number)
        equal = self._congruent.setdefault(self._key(number), number)
        if equal == number:
            self.members.add(number)
        else:
            self.classes[number].members.clear()
            self._merge(number, equal, None)

    def _key(self, number: int) -> Hashable:
        term = self.terms[number]
        return term.label, tuple([self.find(child) for child in term.children])

    def _deduced(self, number: int) -> StructInfo:
        term = self.terms[number]
        return deduce(term.value if not self._has_operands(term) else self.value(number))

    @staticmethod
    def _has_operands(term: Term) -> bool:
        return bool(term.children) and not term.is_atom and not term.is_variable

    def value(self, number: int) -> Expr:
        """Returns the value of a term, over variables that stand for its operands."""
        term = self.terms[number]
        if not self._has_operands(term):
            return term.value
        operands = [self.operand(child) for child in term.children]
        known = self.classes.get(self._parents[number])
        return with_operands(term.value, operands, None if known is None else known.info)

    def operand(self, number: int) -> Expr:
        """Returns an expression for a term as operand: a variable, a constant, or a tuple."""
        term = self.terms[number]
        if term.is_atom:
            return term.value
        if type(term.value) is Tuple:
            return with_operands(term.value, [self.operand(child) for child in term.children])
        return self.variable(number)

    def variable(self, number: int) -> Var:
        """Returns the variable that stands for a term, with the StructInfo of its class."""
        info, var = self.info(number), self._variables.get(number)
        if var is None or var.struct_info is not info:
            value = self.terms[number].value
            name = value.name if isinstance(value, Var) else f"e{number}"
            var = self._variables[number] = Var(name, info)
            self.numbers[var] = number
        return var

    def constant(self, number: int) -> int | None:
        """Returns a constant tensor among the terms equal to a term."""
        for member in self.class_of(number).members:
            if type(self.terms[member].value) is Constant:
                return member
        return None

    def preferred(self, number: int) -> int:
        """Returns an equal constant, or the term itself."""
        constant = self.constant(number)
        return number if constant is None else constant

    @property
    def node_count(self) -> int:
        """The number of different terms, up to equality of operands."""
        return len(self.members)

    # Merges

    def merge(self, equation: RuleEquation) -> bool:
        """Merges both sides of an equation; returns whether they were different classes.

        Raises PassError if no value has the StructInfos of both.
        """
        return self._merge(equation.left, equation.right, equation)

    def refine(self, number: int, info: StructInfo) -> None:
        """Adds a StructInfo to what is known of a class."""
        known = self.class_of(number)
        common = greatest_lower_bound(known.info, info)
        if common is not None and base_check(common, known.info) is not PASS:
            known.info = common
            self.touched.add(number)
            self._refined.append(number)

    def _merge(self, left: int, right: int, reason: Reason) -> bool:
        a, b = self.find(left), self.find(right)
        if a == b:
            return False
        self._reroot(left)
        self._links[left] = MergeLink(right, reason, True)
        if len(self.classes[a].users) > len(self.classes[b].users):
            a, b = b, a
        old, known = self.classes.pop(a), self.classes[b]
        self._parents[a] = b
        if are_disjoint(known.info, old.info):
            raise self._conflict(left, right, reason, (old.info, known.info))
        common = greatest_lower_bound(known.info, old.info) or known.info
        is_refined = common not in (known.info, old.info) or known.info != old.info
        known.info = common
        known.members += old.members
        known.users += old.users
        self.touched.add(b)
        self._merged.append(b)
        if is_refined:
            self._refined.append(b)
        return True

    def _reroot(self, number: int) -> None:
        """Makes a term the root of its tree of reasons."""
        link, self._links[number] = self._links[number], None
        while link is not None:
            following = self._links[link.target]
            self._links[link.target] = MergeLink(number, link.reason, not link.forward)
            number, link = link.target, following

    def rebuild(self) -> None:
        """Merges terms whose operands have become equal, and infers StructInfos again."""
        while self._merged or self._refined:
            merged, self._merged = self._merged, []
            for number in dict.fromkeys(map(self.find, merged)):
                self._close(number)
            refined, self._refined = self._refined, []
            for number in dict.fromkeys(map(self.find, refined)):
                for user in list(self.class_of(number).users):
                    self._infer_again(user)

    def _close(self, number: int) -> None:
        """Restores congruence among the users of a class, and keeps one of several equal terms."""
        known, users = self.class_of(number), dict[Hashable, int]()
        before = list(known.users)
        for user in before:
            key = self._key(user)
            equal = self._congruent.setdefault(key, user)
            if self.find(equal) != self.find(user):
                self._merge(user, equal, None)
            users.setdefault(key, user)
        if self.class_of(number) is known and len(known.users) == len(before):
            known.users = list(users.values())
        known = self.class_of(number)
        members = {self._key(member): member for member in reversed(known.members)}
        kept = sorted(members.values())
        self.members.difference_update(set(known.members).difference(kept))
        known.members = kept

    def _infer_again(self, user: int) -> None:
        """Infers the StructInfo of a term from those of its operands."""
        if not self._has_operands(self.terms[user]):
            return
        try:
            info = self._deduced(user)
        except StructInfoError as error:
            raise self._conflict(user, user, self._latest(user), (error.message,)) from None
        self.refine(user, info)

    def _latest(self, number: int) -> Reason:
        """Returns an equation about an operand of a term."""
        for child in self.terms[number].children:
            for member in self.class_of(child).members:
                link = self._links[member]
                if link is not None and link.reason is not None:
                    return link.reason
        return None

    def _conflict(self, left: int, right: int, reason: Reason, infos: tuple[Any, ...]) -> PassError:
        """Returns the error for terms that cannot be equal; it names the rule."""
        cause = reason or self._latest(left) or self._latest(right)
        rule = "congruence" if cause is None else f"rule `{cause.rule}`"
        message = f"saturate: {rule} equates values with conflicting StructInfos"
        diagnostic = Diagnostic(message, self.terms[left].value.span, code="E0530")
        for info in infos:
            diagnostic = diagnostic.note(str(info))
        if cause is not None:
            diagnostic = diagnostic.note(f"left:  {self.value(cause.left)}")
            diagnostic = diagnostic.note(f"right: {self.value(cause.right)}")
        return PassError(
            diagnostic.hinted("add a guard before the second yield, such as `same_sizes(x, y)`")
        )

    def recently_changed(self, depth: int) -> set[int]:
        """Returns the terms within `depth` levels above classes that have changed since the last
        call."""
        classes = {self.find(number) for number in self.touched}
        self.touched = set()
        terms = {member for number in classes for member in self.classes[number].members}
        for _ in range(depth):
            users = {user for number in classes for user in self.classes[number].users}
            classes = {self.find(user) for user in users - terms}
            terms |= users
        return terms

    # Reasons

    def path(self, first: int, last: int) -> Iterator[tuple[int, int, Reason, bool]]:
        """Yields the merges that connect two equal terms: from, to, reason, and direction."""
        up, down = list(self._to_root(first)), list(self._to_root(last))
        above_last = {last: 0} | {step[1]: k + 1 for k, step in enumerate(down)}
        number = first
        for step in up:
            if number in above_last:
                break
            yield step
            number = step[1]
        for start, target, reason, forward in reversed(down[: above_last[number]]):
            yield target, start, reason, not forward

    def _to_root(self, number: int) -> Iterator[tuple[int, int, Reason, bool]]:
        link = self._links[number]
        while link is not None:
            yield number, link.target, link.reason, link.forward
            number, link = link.target, self._links[link.target]
