"""Terms: one element of a tensor as a scalar expression over index variables.

A term reads elements of parameters at indices that are dims, applies scalar functions, chooses by
conditions and folds over bounded index variables. The normal form of a term is a `NormalForm` of
monomials; the kernel computes it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from fractions import Fraction
from hashlib import blake2b
from typing import Any

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.dtype import int_limits, is_float
from structir.system.locks import cached_property

LONG_KEY = 200  # characters
NAMES = frozenset({"source", "attributes", "op", "fn", "monoid", "dtype"})  # without dims
Number = Fraction | float | int | bool


class ScalarTerm:
    """A scalar term of one dtype. Terms are equal if their keys are."""

    dtype: str

    @cached_property
    def key(self) -> str:
        """Returns a text that identifies the term; that of a large term is a digest."""
        parts = [_key(getattr(self, a.name)) for a in attrs.fields(type(self))]  # type: ignore[arg-type]
        text = f"{type(self).__name__}({','.join(parts)})"
        return text if len(text) < LONG_KEY else blake2b(text.encode(), digest_size=24).hexdigest()

    @cached_property
    def free(self) -> frozenset[Sym]:
        """Returns the free variables: index variables and sizes."""
        free = frozenset[Sym]().union(*[free_dims(part) for _, part in parts(self)])
        bound = getattr(self, "variables", ())
        return free - {variable for variable, _ in bound}

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, ScalarTerm) and self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key)


def dim_key(dim: Dim) -> str:
    """Returns a text of a dim that identifies its variables."""
    if isinstance(dim, int):
        return str(dim)
    terms = []
    for monomial, factor in dim.terms.items():
        atoms = [
            f"{atom.name}.{atom.order}"
            if isinstance(atom, Sym)
            else f"{atom.fn}({','.join(map(dim_key, atom.args))})"
            for atom in monomial
        ]
        terms.append(f"{factor}*{'*'.join(sorted(atoms))}")
    return "+".join([*sorted(terms), str(dim.constant)])


def _key(value: Any) -> str:
    if isinstance(value, ScalarTerm):
        return value.key
    if isinstance(value, tuple):
        return f"({','.join(map(_key, value))})"
    if isinstance(value, Sym):
        return f"{value.name}.{value.order}"
    if isinstance(value, Fraction):
        return str(value)
    return dim_key(value) if isinstance(value, dims.Poly) else repr(value)


@attrs.frozen(eq=False, slots=False)
class LiteralTerm(ScalarTerm):
    """A number: a fraction for a finite float, an int, a bool, or a float that is not finite."""

    value: Number
    dtype: str


@attrs.frozen(eq=False, slots=False)
class SizeTerm(ScalarTerm):
    """The value of a dim."""

    dim: Dim
    dtype: str


@attrs.frozen(eq=False, slots=False)
class ElementTerm(ScalarTerm):
    """An element of a parameter."""

    source: Hashable
    index: tuple[Dim, ...]
    dtype: str


@attrs.frozen(eq=False, slots=False)
class ApplyTerm(ScalarTerm):
    """A scalar function of terms. The kernel knows laws of some functions and none of others."""

    fn: str
    args: tuple[Any, ...]
    dtype: str


@attrs.frozen(eq=False, slots=False)
class NonNegative(ScalarTerm):
    """The condition `dim >= 0`."""

    dim: Dim
    dtype: str = "bool"


@attrs.frozen(eq=False, slots=False)
class Fold(ScalarTerm):
    """A reduction over index variables, each from 0 to its extent exclusive, by a monoid."""

    monoid: str
    variables: tuple[tuple[Sym, Dim], ...]
    body: Any
    dtype: str


@attrs.frozen(eq=False, slots=False)
class TableTerm(ScalarTerm):
    """A tensor as a function of its index: an argument of a call without scalar semantics."""

    variables: tuple[tuple[Sym, Dim], ...]
    body: Any
    dtype: str = ""


@attrs.frozen(eq=False, slots=False)
class Unknown(ScalarTerm):
    """An element of a result of a call without scalar semantics: a function of its arguments."""

    op: str
    attributes: Hashable
    args: tuple[Any, ...]
    result: int
    index: tuple[Dim, ...]
    dtype: str


@attrs.frozen(eq=False, slots=False)
class NormalForm(ScalarTerm):
    """A normal form: a sum of monomials, which are sorted tuples of atoms, with coefficients."""

    terms: tuple[tuple[tuple[Any, ...], Any], ...]
    dtype: str


def parts(term: ScalarTerm) -> Iterator[tuple[str, Any]]:
    """Yields the fields of a term in which terms and dims occur."""
    for field in attrs.fields(type(term)):  # type: ignore[arg-type]
        if field.name not in NAMES:
            yield field.name, getattr(term, field.name)


def names_of(term: ScalarTerm) -> dict[str, Any]:
    """Returns the fields of a term in which neither terms nor dims occur."""
    fields = [field.name for field in attrs.fields(type(term))]  # type: ignore[arg-type]
    return {name: getattr(term, name) for name in fields if name in NAMES}


def substituted(value: Any, values: Mapping[Sym, Dim]) -> Any:
    """Returns a term, a dim, or a tuple of them, with dims in place of free variables."""
    if isinstance(value, dims.Poly):
        return dims.substitute(value, values)
    if isinstance(value, tuple):
        return tuple([substituted(item, values) for item in value])
    if not isinstance(value, ScalarTerm) or not values:
        return value
    if isinstance(value, Fold | TableTerm):
        bound = [variable for variable, _ in value.variables]
        values = {v: d for v, d in values.items() if v not in bound and v in value.free}
        free = frozenset[Sym]().union(*map(dims.syms, values.values()))
        renamed = {v: Sym(v.name) for v in bound if v in free}  # they would be captured
        if renamed:
            variables = tuple([(renamed.get(v, v), extent) for v, extent in value.variables])
            names = {old: dims.as_dim(new) for old, new in renamed.items()}
            value = attrs.evolve(value, variables=variables, body=substituted(value.body, names))
    changes = {name: substituted(part, values) for name, part in parts(value)}
    return attrs.evolve(value, **changes)


def walk(value: Any) -> Iterator[ScalarTerm]:
    """Yields the terms in a term or a tuple, in preorder."""
    if isinstance(value, tuple):
        for item in value:
            yield from walk(item)
    elif isinstance(value, ScalarTerm):
        yield value
        for _, part in parts(value):
            yield from walk(part)


def free_dims(value: Any) -> frozenset[Sym]:
    """Returns the free variables of a term, a dim or a tuple of them."""
    if isinstance(value, dims.Poly):
        return dims.syms(value)
    if isinstance(value, tuple):
        return frozenset[Sym]().union(*map(free_dims, value))
    return value.free if isinstance(value, ScalarTerm) else frozenset()


def identity_of(monoid: str, dtype: str) -> ScalarTerm:
    """Returns the result of an empty reduction."""
    if monoid in ("max", "min") and dtype != "bool":
        infinite = -math.inf if monoid == "max" else math.inf
        return LiteralTerm(
            infinite if is_float(dtype) else int_limits(dtype)[monoid == "min"], dtype
        )
    return LiteralTerm(int(monoid in ("prod", "all", "min")), dtype)


def renamed(value: Any, names: Mapping[Sym, Sym]) -> Any:
    """Returns a term with other variables."""
    return substituted(value, {old: dims.as_dim(new) for old, new in names.items()})
