"""Proves that passes preserve results, and shows inputs that refute it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import attrs

from structir.analysis.internal_functions import PRIVATE
from structir.errors import Diagnostic, PassError, StructIRError
from structir.ir.module import IRModule
from structir.ir.node import ShownAsText, replace
from structir.passes.base import Instrument, Pass, PassContext, PassRun
from structir.passes.manager.verifying import VerifyResults
from structir.proving.proof import Proof
from structir.proving.prover import functions_of, prove_functions

CHANGED_RESULT = "E0600"  # the error with an input for which a pass changes a result
SHOWN = 100  # characters of a value
Kind = Literal["proved", "refuted", "not decided"]


@attrs.frozen(eq=False, repr=False)
class Verdict(ShownAsText):
    """The result of a proof of one function.

    A proved function has the proof, and whether it holds bit for bit; a refuted one the error with
    sizes and inputs, and the proof over the reals if only floats differ; one that is not decided
    the reason, and the smallest remaining equation.
    """

    function: str
    kind: Kind
    proof: Proof | None = None
    bitwise: bool = False
    counterexample: Diagnostic | None = None
    reason: str = ""
    remaining: str = ""

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.kind == "proved":
            how = "bit for bit" if self.bitwise else "over the reals"
            ranks = self.proof.ranks if self.proof is not None else ""
            yield f"{self.function}: proved {how} for all sizes{ranks and f', with {ranks}'}"
        elif self.kind == "refuted" and self.counterexample is not None:
            where = "" if self.proof is None else " in floats, although proved over the reals"
            yield f"{self.function}: refuted{where}: the results differ for"
            yield from [f"  {_shortened(note.text)}" for note in self.counterexample.notes]
        else:
            yield f"{self.function}: {self.kind}: {self.reason}"
            if self.remaining:
                yield f"  {self.remaining}"


def _shortened(text: str) -> str:
    """Returns the first and the last part of a value: its elements, and its dtype and shape."""
    return text if len(text) <= SHOWN else f"{text[: SHOWN // 2]} ... {text[-SHOWN // 4 :]}"


def prove(before: IRModule, after: IRModule, *, refute: bool = True) -> list[Verdict]:
    """Proves that functions of the same name are equal for all sizes; returns a verdict for each.

    The functions are the public ones that both modules have. Where no proof bit for bit is found,
    `refute` runs both modules on sampled inputs: a proof over the reals does not exclude overflow
    and lost digits. Raises StructIRError if there is no such function.
    """
    ours, theirs = functions_of(before), functions_of(after)
    names = [n for n, f in ours.items() if n in theirs and not f.attrs.get(PRIVATE)]
    if not names:
        described = f"{', '.join(ours) or 'none'} and {', '.join(theirs) or 'none'}"
        message = (
            f"prove: expected a public function of one name in both modules, found {described}"
        )
        raise StructIRError(f"{message}; help: give both the same name", code="E0522")
    return [_verdict(name, before, after, refute) for name in names]


def _verdict(name: str, before: IRModule, after: IRModule, refute: bool) -> Verdict:
    ours, theirs = functions_of(before), functions_of(after)
    modules = before.functions, after.functions
    attempt = prove_functions(ours[name], theirs[name], modules)
    if attempt.proof is not None:
        exact = prove_functions(ours[name], theirs[name], modules, exact=True)
        if exact.proof is not None:
            return Verdict(name, "proved", exact.proof, bitwise=True)
    refuted = refutation(name, before, after, attempt.proof) if refute else None
    if refuted is not None:
        return refuted
    if attempt.proof is not None:
        return Verdict(name, "proved", attempt.proof)
    return Verdict(name, "not decided", reason=attempt.reason, remaining=attempt.remaining)


def refutation(
    name: str, before: IRModule, after: IRModule, proof: Proof | None = None
) -> Verdict | None:
    """Returns the verdict with a sampled input for which two functions differ, if there is one.

    `proof` is their proof over the reals.
    """
    error = _counterexample(name, before, after, moderate=proof is not None)
    return None if error is None else Verdict(name, "refuted", proof, counterexample=error)


def _counterexample(
    name: str, before: IRModule, after: IRModule, moderate: bool
) -> Diagnostic | None:
    """Returns the error with an input for which the results differ, if sampled inputs show one.

    `moderate` leaves out inputs for which most programs overflow.
    """
    changed = Pass("the second program", lambda _: _only(after, name))
    try:
        with PassContext([VerifyResults(moderate=moderate)]):
            changed(_only(before, name))
    except PassError as error:
        diagnostic: Diagnostic = error.diagnostics[0]
        has_input = any([note.text.startswith("before:") for note in diagnostic.notes])
        return diagnostic if diagnostic.code == CHANGED_RESULT and has_input else None
    except StructIRError:
        return None
    return None


def _only(module: IRModule, name: str) -> IRModule:
    """Returns a module in which only one function is public."""
    functions: dict[str, Any] = dict(module.functions)
    for each, function in functions_of(module).items():
        if each != name:
            functions[each] = replace(function, attrs={**function.attrs, PRIVATE: True})
    return module.with_functions(functions)


@attrs.define(eq=False)
class Proved(Instrument):
    """An instrument that proves after each pass that every changed function is the same function.

    Raises PassError for a refuted function, with the input; with `strict` also for one that is not
    decided. Functions that are not decided are in `report()`.
    """

    strict: bool = False
    verdicts: list[tuple[str, Verdict]] = attrs.field(factory=list, init=False)  # by pass

    def end(self, step: PassRun) -> None:
        if not step.changed or step.after is None or not step.applied.comparable:
            return
        if not functions_of(step.before).keys() & functions_of(step.after).keys():
            return
        for verdict in prove(step.before, step.after):
            if step.before.functions[verdict.function] is step.after.functions[verdict.function]:
                continue
            self.verdicts.append((str(step.applied), verdict))
            self._check(step, verdict)

    def _check(self, step: PassRun, verdict: Verdict) -> None:
        if verdict.kind == "refuted" and verdict.counterexample is not None:
            message = f"{step.applied} changes {verdict.function}: a proof is refuted"
            raise PassError([Diagnostic(message, code="E0520"), verdict.counterexample])
        if verdict.kind == "not decided" and self.strict:
            message = f"{step.applied}: cannot prove that {verdict.function} is unchanged"
            diagnostic = Diagnostic(f"{message}: {verdict.reason}", code="E0521")
            if verdict.remaining:
                diagnostic = diagnostic.note(f"remaining equation: {verdict.remaining}")
            hint = "accept what is not decided: `Proved()` without `strict`"
            raise PassError(diagnostic.hinted(f"{hint}; compare results: `VerifyResults()`"))

    def report(self) -> list[str]:
        """Returns one line for each pass and changed function."""
        return [f"{name}: {str(verdict).splitlines()[0]}" for name, verdict in self.verdicts]
