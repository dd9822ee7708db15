"""Finds the first pass, the first rule application and a small program with a wrong result."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from structir.errors import PassError
from structir.ir.module import IRModule
from structir.passes.base import Instrument, Pass, PassContext, PassRun
from structir.rewriting.application_limit import limited_applications
from structir.tools.reduction import reduce_module, size_of

Instruments = Callable[[], Sequence[Instrument]]  # of one run of a pass


@attrs.frozen
class Bisection:
    """A wrong pass: its name, the first wrong application of a rule, and a small program."""

    wrong_pass: Pass
    number: int  # of the pass among those that changed the program, from 1
    application: str | None  # None for a pass without rules
    applications: int  # of rules in the pass
    program: IRModule
    bindings: int  # of the program before the pass
    error: PassError  # of the small program

    def lines(self) -> list[str]:
        """Returns the report, without the program and its error."""
        number = _ordinal(self.number)
        lines = [f"first wrong pass: {self.wrong_pass}, the {number} that changes the program"]
        if self.application is not None:
            lines.append(f"first wrong application of {self.applications}: {self.application}")
        count = size_of(self.program)
        lines.append(f"smallest program: {count} of {self.bindings} bindings")
        return lines


@attrs.define(eq=False)
class _Recorder(Instrument):
    """An instrument that keeps the latest run that changed the program."""

    latest: PassRun | None = None
    count: int = 0

    def end(self, step: PassRun) -> None:
        if step.changed:
            self.latest, self.count = step, self.count + 1


def bisect(module: IRModule, applied: Pass, instruments: Instruments) -> Bisection | None:
    """Returns what is wrong in a pipeline; None if the instruments raise no PassError."""
    recorder = _Recorder()
    error = _failure(module, applied, [recorder, *instruments()])
    step = recorder.latest
    if error is None:
        return None
    if step is None:  # the pass itself raises an error
        raise error
    wrong_pass, before = step.applied, step.before

    def failure(candidate: IRModule, most: int | None = None) -> PassError | None:
        with limited_applications(most):
            return _failure(candidate, wrong_pass, instruments())

    application, count = _first_application(wrong_pass, before, failure)
    code = error.diagnostics[0].code
    small = reduce_module(before, lambda each: _code(failure(each)) == code)
    return Bisection(
        wrong_pass,
        recorder.count,
        application,
        count,
        small,
        size_of(before),
        failure(small) or error,
    )


def _failure(
    module: IRModule, applied: Pass, instruments: Sequence[Instrument]
) -> PassError | None:
    """Returns the PassError of a run, or None."""
    try:
        with PassContext(instruments):
            applied(module)
    except PassError as error:
        return error
    return None


def _first_application(
    wrong_pass: Pass, before: IRModule, failure: Callable[..., PassError | None]
) -> tuple[str | None, int]:
    """Returns the first application without which the result is right, and the number of all, by
    a binary search over the number of permitted applications."""
    with limited_applications(None) as limit:
        wrong_pass.transform(before, **wrong_pass.options)
    count = limit.count
    right, wrong = 0, count
    if not count or failure(before, 0) is not None:
        return None, count
    while wrong - right > 1:
        middle = (right + wrong) // 2
        if failure(before, middle) is None:
            right = middle
        else:
            wrong = middle
    with limited_applications(wrong) as limit:
        wrong_pass.transform(before, **wrong_pass.options)
    return str(limit.latest), count


def _code(error: PassError | None) -> str | None:
    return None if error is None else error.diagnostics[0].code


def _ordinal(number: int) -> str:
    endings = {1: "st", 2: "nd", 3: "rd"}
    ending = "th" if number % 100 in (11, 12, 13) else endings.get(number % 10, "th")
    return f"{number}{ending}"
