"""`structir prove`: proves that two programs are equal for all sizes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from structir.lazy import lazy_module
from structir.tools.as_json import Json, write
from structir.tools.exit_codes import ExitCode
from structir.tools.programs import ProgramFile, read_program
from structir.tools.terminal import diagnostics, show

if TYPE_CHECKING:
    from structir.passes.manager.proofs import Verdict

proofs = lazy_module("structir.passes.manager.proofs")
pipelines = lazy_module("structir.passes.manager.pipeline")
PANEL = "Test and debug"


def prove(
    before: ProgramFile,
    after: Annotated[
        str, typer.Argument(metavar="[AFTER]", help="The second program; or give --passes.")
    ] = "",
    passes: Annotated[
        str, typer.Option("--passes", "-p", help="Compare with the program after these passes.")
    ] = "",
    function: Annotated[str, typer.Option(help="Prove this function only.")] = "",
    proof: Annotated[bool, typer.Option("--proof", help="Print equations and laws.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Check each proof again with the proof kernel.")
    ] = False,
    refute: Annotated[bool, typer.Option(help="Run both programs where no proof is found.")] = True,
    json: Json = False,
) -> None:
    """Prove that two programs have equal results for [bold]all[/bold] sizes and arguments.

    Functions are compared by name. Each one is
    [bold]proved[/bold] (over the reals, or bit for bit),
    [bold]refuted[/bold] (with sizes and inputs for which the results differ), or
    [bold]not decided[/bold] (with the smallest remaining equation).

    Floats are reals, integers and booleans are exact, and a cast to a narrower dtype is never
    dropped. A proof does not cover rounding, overflow of floats, NaN and infinities, unless it
    holds bit for bit. Row variables have any rank if their axes are treated alike, else 0 to 3.

    The exit code is 0 if every function is proved, 4 if one is refuted, and 6 otherwise.

    With --json: `functions`, each with its `verdict`, `bitwise`, `laws`, `reason` and `remaining`.

    [bold]Examples[/bold]

        structir prove before.py after.py

        structir prove --proof --check before.py after.py

        structir prove model.py -p 'simplify,dead_code_elimination'
    """
    with diagnostics(json):
        first = read_program(before)
        second = _second(first, after, passes)
        verdicts = proofs.prove(first, second, refute=refute)
        if function:
            verdicts = [v for v in verdicts if v.function == function]
        if not verdicts:
            raise typer.BadParameter(f"no function {function} in both programs")
    if json:
        write({"functions": [_record(v) for v in verdicts]})
    for verdict in verdicts if not json else ():
        show(str(verdict))
        if verdict.proof is not None and proof:
            show("\n".join([f"  {line}" for line in str(verdict.proof).splitlines()]))
    if check:
        _check(verdicts, json)
    kinds = {v.kind for v in verdicts}
    if "refuted" in kinds:
        raise typer.Exit(ExitCode.PASS_ERROR)
    if "not decided" in kinds:
        raise typer.Exit(ExitCode.NOT_DECIDED)


def _second(first: Any, after: str, passes: str) -> Any:
    if bool(after) == bool(passes):
        raise typer.BadParameter("expected a second program or --passes")
    return read_program(Path(after)) if after else pipelines.pipeline(passes)(first)


def _check(verdicts: list[Verdict], json: bool) -> None:
    """Checks each proof again; a proof that fails is a bug in StructIR."""
    for verdict in verdicts:
        if verdict.proof is not None and not verdict.proof.check():
            raise RuntimeError(f"the kernel rejects the proof of {verdict.function}")
        if verdict.proof is not None and not json:
            count = len(verdict.proof.equations)
            show(f"{verdict.function}: checked {count} equation{'' if count == 1 else 's'} again")


def _record(verdict: Verdict) -> dict[str, Any]:
    return {
        "function": verdict.function,
        "verdict": verdict.kind,
        "bitwise": verdict.bitwise,
        "laws": [] if verdict.proof is None else verdict.proof.laws,
        "reason": verdict.reason,
        "remaining": verdict.remaining,
    }
