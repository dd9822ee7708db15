"""Sinks bindings into the only branch that uses them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from structir.analysis.variables import variables_in
from structir.ir.expr import BindingBlock, Expr, If, SeqExpr, Var, VarBinding
from structir.ir.node import replace

Path = tuple[tuple[Var, int], ...]  # nested branches, and the side of each


def sink_into_branches(bindings: Sequence[VarBinding], result: Expr) -> tuple[VarBinding, ...]:
    """Returns the bindings, with those used by a single branch moved into it."""
    if not any(isinstance(binding.value, If) for binding in bindings):
        return tuple(bindings)
    path_of: dict[Var, Path] = dict.fromkeys(variables_in(result), ())
    bindings_at: dict[Path, list[VarBinding]] = {}
    for binding in reversed(bindings):
        path = path_of.get(binding.var, ())
        bindings_at.setdefault(path, []).insert(0, binding)
        for part, part_path in _parts(binding, path):
            for var in variables_in(part):
                path_of[var] = _common(path_of[var], part_path) if var in path_of else part_path
    return _sequence(bindings_at, ())


def _parts(binding: VarBinding, path: Path) -> list[tuple[Any, Path]]:
    """Returns the parts of a binding with the path on which each is evaluated."""
    value = binding.value
    if not isinstance(value, If):
        return [(value, path)]
    sides = enumerate((value.true_branch, value.false_branch))
    return [(value.cond, path), *[(s, (*path, (binding.var, k))) for k, s in sides]]


def _common(first: Path, second: Path) -> Path:
    pairs = zip(first, second, strict=False)
    same = [a is b and i == j for (a, i), (b, j) in pairs]
    return first[: [*same, False].index(False)]


def _sequence(bindings_at: dict[Path, list[VarBinding]], path: Path) -> tuple[VarBinding, ...]:
    return tuple(
        [_fill_branches(bindings_at, path, binding) for binding in bindings_at.get(path, ())]
    )


def _fill_branches(
    bindings_at: dict[Path, list[VarBinding]], path: Path, binding: VarBinding
) -> VarBinding:
    value = binding.value
    if not isinstance(value, If):
        return binding
    sides: list[SeqExpr] = []
    for k, side in enumerate((value.true_branch, value.false_branch)):
        bindings = _sequence(bindings_at, (*path, (binding.var, k)))
        sides.append(replace(side, blocks=(BindingBlock(bindings),) if bindings else ()))
    return replace(binding, value=replace(value, true_branch=sides[0], false_branch=sides[1]))
