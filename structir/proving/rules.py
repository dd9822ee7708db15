"""Proves rewrite rules: every program in which a rule fires is equal to its replacement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import attrs

from structir.analysis.lattice import PASS, base_check
from structir.ir import dims
from structir.ir.dtype import is_float, is_int
from structir.ir.expr import Function
from structir.ir.module import IRModule
from structir.ir.node import ShownAsText
from structir.ir.struct_info import TensorStructInfo
from structir.lazy import provided_module
from structir.proving.instances import RuleInstance, applied_once, instances, text_of
from structir.proving.prover import Attempt, functions_of, prove_functions
from structir.rewriting.rule import Rule

proofs = provided_module("refutation")

FEW = 3  # programs that a report lists


@attrs.frozen(eq=False, repr=False)
class RuleProof(ShownAsText):
    """The result for one rule: the programs, what is proved of each, and a side condition."""

    rule: str
    attempts: tuple[tuple[RuleInstance, Attempt], ...]
    bitwise: bool
    condition: str | None = None  # the weakest one under which every program is proved
    refuted: tuple[RuleInstance, Any] | None = None  # a program, and the verdict with its inputs

    @property
    def proved(self) -> bool:
        """Whether the rule fires, each program in which it fires is proved, and none is refuted in
        floats."""
        are_proved = all([a.proof is not None for _, a in self.attempts])
        return bool(self.attempts) and are_proved and self.refuted is None

    def check(self) -> bool:
        """Checks every proof again with the kernel alone."""
        return all([a.proof is not None and a.proof.check() for _, a in self.attempts])

    @property
    def laws(self) -> list[str]:
        """Returns the names of the laws that the proofs use."""
        proofs = [a.proof for _, a in self.attempts if a.proof is not None]
        return list(dict.fromkeys(law for proof in proofs for law in proof.laws))

    def scope(self) -> dict[str, str]:
        """Returns what the proofs are about: ranks and dtypes of operands, values of attributes."""
        programs = [instance for instance, _ in self.attempts]
        infos = [p.struct_info for i in programs for p in i.before.params]
        tensors = [info for info in infos if isinstance(info, TensorStructInfo)]
        ranks = list(map(str, sorted({t.ndim for t in tensors if t.ndim is not None})))
        proofs = [a.proof for _, a in self.attempts if a.proof is not None]
        ranks += ["any"] if any([proof.instances for proof in proofs]) else []
        parts = {"ranks": ranks, "dtypes": sorted({str(t.dtype) for t in tensors})}
        for name in dict.fromkeys(name for i in programs for name in i.values):
            values = [text_of(i.values[name]) for i in programs if name in i.values]
            if not any([isinstance(i.values.get(name), TensorStructInfo) for i in programs]):
                parts[name] = sorted(set(values))
        return {name: ", ".join(values) for name, values in parts.items()}

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        count = len(self.attempts)
        if not count:
            yield f"{self.rule}: not decided: no program in which the rule fires"
            return
        if self.proved:
            kind = "bit for bit" if self.bitwise else "over the reals"
            yield f"{self.rule}: proved {kind} for all sizes, in {count} programs"
            yield f"  by {', '.join(self.laws) or 'equal elements'}"
            yield from [f"  {name}: {text}" for name, text in self.scope().items()]
            return
        failed = [(i, a) for i, a in self.attempts if a.proof is None]
        if failed:
            yield f"{self.rule}: not proved in {len(failed)} of {count} programs"
        else:
            yield f"{self.rule}: proved over the reals, refuted in floats"
        for instance, attempt in failed[:FEW]:
            yield f"  {instance}: {attempt.reason}"
            if attempt.remaining:
                yield f"    {attempt.remaining}"
        if self.refuted is not None:
            yield f"  {self.refuted[0]}: refuted"
            yield from [f"  {line}" for line in str(self.refuted[1]).splitlines()[1:]]
        if self.condition is not None:
            yield f"  help: proved under the side condition `{self.condition}`"


def prove_rule(rule: Rule, programs: Iterable[Any] = (), most: int = 60) -> RuleProof:
    """Proves a rule in programs in which it fires; without programs, in `most` generated ones."""
    programs = tuple(programs)
    chosen = list(_given(rule, programs) if programs else islice(instances(rule), most))
    attempts = [(instance, _attempt(instance)) for instance in chosen]
    is_proved = all([a.proof is not None for _, a in attempts])
    exact = is_proved and all(
        [prove_functions(i.before, i.after, exact=True).proof is not None for i in chosen]
    )
    refuted = None if exact else next(_refuted(attempts, is_proved), None)
    condition = None if is_proved else side_condition(attempts)
    return RuleProof(rule.name, tuple(attempts), exact, condition, refuted)


def _refuted(
    attempts: list[tuple[RuleInstance, Attempt]], is_proved: bool
) -> Iterator[tuple[RuleInstance, Any]]:
    """Yields programs whose results differ for sampled inputs, among the first that are not proved;
    if all are proved over the reals, among the first of all."""
    undecided = [
        (i, a.proof) for i, a in attempts if is_proved or (a.proof is None and i.error is None)
    ]
    for instance, proof in undecided[:FEW]:
        before, after = [IRModule({"main": f}) for f in (instance.before, instance.after)]
        verdict = proofs.refutation("main", before, after, proof)
        if verdict is not None:
            yield instance, verdict


def _given(rule: Rule, programs: Iterable[Any]) -> Iterator[RuleInstance]:
    for program in programs:
        functions = [program] if isinstance(program, Function) else functions_of(program).values()
        for function in functions:
            after = applied_once(rule, function)
            if after is not None:
                infos = {p.name: p.struct_info for p in function.params}
                yield RuleInstance(function, after, infos)


def _attempt(instance: RuleInstance) -> Attempt:
    """Proves one program, and that the replacement's StructInfo is at least as precise."""
    if instance.error is not None:
        text = str(instance.error).partition("\n")[0]
        return Attempt(None, f"the rule raises {type(instance.error).__name__}: {text}")
    attempt = prove_functions(instance.before, instance.after)
    infos = [f.body.body.struct_info for f in (instance.after, instance.before)]
    if attempt.proof is not None and base_check(infos[1], infos[0]) < PASS:
        return Attempt(None, f"the StructInfo {infos[0]} is less precise than {infos[1]}")
    return attempt


# ---- side conditions

DTYPE_CONDITIONS: dict[str, Callable[[str], bool]] = {
    'dtype_of({}) != "bool"': "bool".__ne__,
    "is_float(dtype_of({}))": is_float,
    "is_int(dtype_of({}))": is_int,
    'dtype_of({}) == "bool"': "bool".__eq__,
}
Condition = tuple[str, Callable[[RuleInstance], bool]]


def side_condition(attempts: list[tuple[RuleInstance, Attempt]]) -> str | None:
    """Returns the condition that holds for the most programs, all of them proved, or None."""
    best: tuple[int, str] | None = None
    for text, holds in _conditions([i for i, _ in attempts]):
        verdicts = [a.proof is not None for i, a in attempts if holds(i)]
        if verdicts and all(verdicts) and (best is None or len(verdicts) > best[0]):
            best = len(verdicts), text
    return None if best is None else best[1]


def _conditions(programs: list[RuleInstance]) -> Iterator[Condition]:
    names = list(dict.fromkeys(name for i in programs for name in i.values))
    for name in names:
        values = [i.values.get(name) for i in programs]
        infos = [v for v in values if isinstance(v, TensorStructInfo)]
        if infos:
            yield from _of_tensor(name, infos)
            continue
        for value in {repr(v): v for v in values}.values():
            yield f"{name} == {value!r}", _equals(name, value)
        for other in names:
            if other > name:
                yield f"{name} == {other}", _same(name, other)


def _of_tensor(name: str, infos: list[TensorStructInfo]) -> Iterator[Condition]:
    for text, test in DTYPE_CONDITIONS.items():
        yield text.format(name), _dtype_is(name, test)
    for rank in sorted({len(i.dims) for i in infos if isinstance(i.dims, tuple)}):
        yield f"rank_of({name}) == {rank}", _rank_is(name, rank)
        for axis in range(rank):
            yield f"dims_of({name})[{axis}] == 1", _size_one(name, axis)
            for other in range(axis):
                yield (
                    f"dims_of({name})[{other}] == dims_of({name})[{axis}]",
                    _equal_sizes(name, other, axis),
                )


def _equals(name: str, value: Any) -> Callable[[RuleInstance], bool]:
    return lambda i: repr(i.values.get(name)) == repr(value)


def _same(name: str, other: str) -> Callable[[RuleInstance], bool]:
    return lambda i: repr(i.values.get(name)) == repr(i.values.get(other))


def _dtype_is(name: str, test: Callable[[str], bool]) -> Callable[[RuleInstance], bool]:
    return lambda i: bool(test(getattr(i.values.get(name), "dtype", None) or ""))


def _rank_is(name: str, rank: int) -> Callable[[RuleInstance], bool]:
    return lambda i: getattr(i.values.get(name), "ndim", None) == rank


def _size_one(name: str, axis: int) -> Callable[[RuleInstance], bool]:
    return lambda i: _size(i, name, axis) == 1


def _equal_sizes(name: str, first: int, second: int) -> Callable[[RuleInstance], bool]:
    def holds(instance: RuleInstance) -> bool:
        a, b = _size(instance, name, first), _size(instance, name, second)
        return a is not None and b is not None and dims.equal(a, b) is True

    return holds


def _size(instance: RuleInstance, name: str, axis: int) -> Any:
    shape = getattr(instance.values.get(name), "dims", None)
    return shape[axis] if isinstance(shape, tuple) and axis < len(shape) else None
