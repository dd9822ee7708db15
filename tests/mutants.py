"""Rules broken on purpose, one at a time: the tests of their package must fail for each.

`python tests/mutants.py` copies the repository, breaks one rule in the copy, and runs the tests of
its package that `make test` runs until one fails. It prints a line for each rule, and exits with 1
if one lives.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import attrs

HERE = Path(__file__).parent.parent
LEFT_OUT = (".git", ".venv", "site", "dist", "build", ".mypy_cache", ".ruff_cache", ".pytest_cache")


@attrs.frozen
class Mutant:
    """A rule, and what it is broken into."""

    what: str
    file: str
    rule: str
    broken: str
    tests: str


def _mutants_of(file: str, tests: str, *rules: tuple[str, str, str]) -> list[Mutant]:
    return [Mutant(what, file, rule, broken, tests) for what, rule, broken in rules]


MUTANTS = [
    *_mutants_of(
        "structir/analysis/erasure.py",
        "tests/analysis tests/conformance",
        (
            "a result keeps sizes that no parameter binds any longer",
            "        unbound |= newly_unbound",
            "        return erased",
        ),
    ),
    *_mutants_of(
        "structir/analysis/lattice.py",
        "tests/analysis tests/conformance",
        (
            "sizes that may be equal pass a check",
            "_EQUALITY = {True: PASS, False: FAIL_L0, None: FAIL_L2}",
            "_EQUALITY = {True: PASS, False: FAIL_L0, None: PASS}",
        ),
        (
            "a rank that is not known fails for ever",
            "    return FAIL_L1 if derived is None else FAIL_L0\n\n\ndef _check_value(",
            "    return FAIL_L0\n\n\ndef _check_value(",
        ),
        (
            "constants that differ may still be equal",
            "_EQUALITY = {True: PASS, False: FAIL_L0, None: FAIL_L2}",
            "_EQUALITY = {True: PASS, False: FAIL_L2, None: FAIL_L2}",
        ),
        (
            "the best of all checks counts, not the worst",
            "return min(map(_check_dim, base, derived), default=PASS)",
            "return max(map(_check_dim, base, derived), default=PASS)",
        ),
        (
            "an impure function is taken for a pure one",
            "if base.purity and not",
            "if False and not",
        ),
        (
            "the join of sizes that may be equal keeps one",
            "tuples and all(map(equal, a, b)) else",
            "tuples and all(equal(x, y) is not False for x, y in zip(a, b)) else",
        ),
        ("the join of dtypes keeps the first", "return a if a == b else ERASED", "return a"),
        (
            "the join of a pure and an impure function is pure",
            "purity = a.purity and b.purity",
            "purity = a.purity or b.purity",
        ),
        (
            "tuples of other lengths are joined",
            "if a is None or b is None or len(a) != len(b):\n        return ERASED",
            "if a is None or b is None:\n        return ERASED",
        ),
    ),
    *_mutants_of(
        "structir/solver/propagation/dim_broadcast.py",
        "tests/solver/test_cases.py tests/solver",
        (
            "a size that broadcasts to a known one is that one",
            "if small == large or proves_not_one(store, small):",
            "if True:",
        ),
        (
            "what is open about a broadcast is forgotten",
            "if not _propagate_broadcast(store, inner, outer):",
            "if _propagate_broadcast(store, inner, outer) is None:",
        ),
        ("what differs is not 1", "equate(store, small, 1)\n        return True", "return True"),
        (
            "the size of a join is any operand that may be 1",
            "    for result, resolved in open_operands:\n"
            "        if proves_not_one(store, resolved):\n            for inner",
            "    for result, resolved in open_operands:\n        if True:\n            for inner",
        ),
    ),
    *_mutants_of(
        "structir/solver/propagation/arithmetic.py",
        "tests/solver/test_cases.py tests/solver",
        (
            "numbers that differ do not conflict",
            "if lhs != rhs:\n            raise",
            "if 0:\n            raise",
        ),
        (
            "a variable loses its lower bound where it is solved",
            "if least is None or least < low:",
            "if False:",
        ),
        (
            "a variable loses its upper bound where it is solved",
            "at_least(store, -value + high, 0)",
            "pass",
        ),
    ),
    *_mutants_of(
        "structir/solver/propagation/windows.py",
        "tests/solver/test_cases.py tests/solver",
        (
            "a window has one position too few",
            "return span // window.stride + 1",
            "return span // window.stride",
        ),
        (
            "windows over equal spans may have other numbers of positions",
            "equate(store, earlier[0], window.outer)",
            "pass",
        ),
        (
            "so many positions ask for no span",
            "if least is not None and least > 1:",
            "if False:",
        ),
    ),
    *_mutants_of(
        "structir/solver/propagation/row_unification.py",
        "tests/solver/test_cases.py tests/solver",
        (
            "axes at the same end of equal rows may differ",
            "return first is second\n    unify_axes(store, first, second)",
            "return first is second",
        ),
        (
            "a row that is itself with axes around leaves them be",
            "_bind_empty(store, others)  # s",
            "pass  # s",
        ),
        (
            "a row that stands twice may be cut unequally",
            "for first, second in zip(value, section, strict=True):",
            "for first, second in zip((), ()):",
        ),
    ),
    *_mutants_of(
        "structir/solver/propagation/row_broadcast.py",
        "tests/solver/test_cases.py tests/solver",
        (
            "a row broadcasts to one without axes, whatever it has",
            "if not outer:\n            equate_rows(store, inner, ())",
            "if not outer:",
        ),
        (
            "axes of a row broadcast to axes of any size",
            "        require_broadcast(store, small, large)"
            "  # type: ignore[arg-type]\n        end += 1",
            "        end += 1",
        ),
    ),
    *_mutants_of(
        "structir/solver/program/generalisation.py",
        "tests/solver/test_cases.py tests/solver",
        (
            "what a loop carries may change its shape from step to step",
            "(*cell.constraints, *invariants, *constraints)",
            "(*cell.constraints, *constraints)",
        ),
        (
            "the outputs of a loop are not stacked",
            "[with_axes(row, stacked, steps, constraints) for row in cell.results[states:]]",
            "[*cell.results[states:]]",
        ),
    ),
    *_mutants_of(
        "structir/solver/constraints/scheme.py",
        "tests/solver/test_cases.py tests/solver",
        (
            "a helper's window has one position too few",
            "positions(instance.store, window, span)",
            "positions(instance.store, window, span) - 1",
        ),
    ),
    *_mutants_of(
        "structir/projections/regions.py",
        "tests/projections/test_region_cases.py tests/projections",
        (
            "overwritten elements of the base count as required",
            "remaining = remaining and remaining.without(written)\n        if remaining is None",
            "remaining = remaining\n        if remaining is None",
        ),
        (
            "a region of an operand affects the results of other operands",
            "if link.operand == operand:",
            "if True:",
        ),
        (
            "only the first box of a region is propagated backward",
            "for box in region.boxes:\n            last_points",
            "for box in region.boxes[:1]:\n            last_points",
        ),
        (
            "only the first box of a region is propagated forward",
            "for box in region.boxes:\n            for link",
            "for box in region.boxes[:1]:\n            for link",
        ),
    ),
    *_mutants_of(
        "structir/projections/index_sets.py",
        "tests/projections/test_region_cases.py tests/projections",
        (
            "an index that leaves its axis is not clipped",
            "if self.inside and positions.exact else positions.clipped(0, self.size)",
            "if True else positions",
        ),
        (
            "the conditions of a statement are forgotten",
            "constraints = list(self.conditions)",
            "constraints = []",
        ),
        (
            "an index variable of the access is not narrowed to the box",
            "sets[index_var] = sets[index_var].common(target)",
            "pass",
        ),
    ),
    *_mutants_of(
        "structir/projections/access.py",
        "tests/projections/test_run.py tests/projections",
        (
            "a window one past the end of its operand is in bounds",
            "if lo >= 0 and hi < size:",
            "if lo >= 0 and hi <= size:",
        ),
        (
            "a window one past the end of a result is written",
            "if any(lo < 0 or hi >= n for",
            "if any(lo < 0 or hi > n for",
        ),
    ),
    *_mutants_of(
        "structir/projections/run.py",
        "tests/projections/test_run.py tests/projections",
        (
            "a reversed exclusive scan includes its own element",
            'if op in ("lt", "gt"):',
            'if op in ("lt",):',
        ),
    ),
    *_mutants_of(
        "structir/projections/row_major.py",
        "tests/projections/test_region_cases.py tests/projections",
        (
            "overlapping rows are split",
            "if greatest - least >= factor:",
            "if greatest - least > factor:",
        ),
    ),
    *_mutants_of(
        "structir/runtime/plans/plan_cache.py",
        "tests/runtime/test_step_plans.py tests/runtime/test_loops_at_once.py",
        (
            "a plan of steps serves other sizes of its rank",
            "return self._sizes(value.shape), value.dtype",
            "return value.ndim, value.dtype",
        ),
    ),
    *_mutants_of(
        "structir/runtime/plans/trace.py",
        "tests/runtime/test_step_plans.py tests/runtime/test_loops_at_once.py",
        (
            "branches that give values of other sizes are joined",
            "if then_slot.shape != else_slot.shape or then_slot.dtype != else_slot.dtype:",
            "if then_slot.dtype != else_slot.dtype:",
        ),
    ),
    *_mutants_of(
        "structir/loops/regions/region.py",
        "tests/runtime/test_executable.py tests/runtime/test_step_plans.py",
        (
            "sizes that must be equal when it runs are not compared",
            "return left == right or (self.loose and left == 1)",
            "return True",
        ),
        (
            "any size broadcasts when it runs",
            "(self.loose and left == 1)",
            "self.loose",
        ),
    ),
    *_mutants_of(
        "structir/projections/boxes.py",
        "tests/projections/test_region_cases.py tests/projections",
        (
            "boxes that differ along two axes are merged",
            "if len(differing) > 1:\n            return None",
            "if len(differing) > 2:\n            return None",
        ),
        (
            "a difference of boxes is taken along two axes",
            "if len(differing) > 1:\n            return Box(",
            "if len(differing) > 2:\n            return Box(",
        ),
    ),
]


def failure(tests: str, copy: Path) -> str | None:
    """Returns the output of the first test that fails, or None."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command += ["-m", "not gpu and not exhaustive"]  # as `make test` does
    command += ["-p", "no:randomly", *tests.split()]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    done = subprocess.run(
        command, cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
    return None if done.returncode == 0 else done.stdout[-2000:]


def lives(mutant: Mutant, copy: Path) -> bool:
    """Returns whether no test fails on a broken rule."""
    file = copy / mutant.file
    whole = file.read_text(encoding="utf-8")
    file.write_text(whole.replace(mutant.rule, mutant.broken), encoding="utf-8")
    output = failure(mutant.tests, copy)
    file.write_text(whole, encoding="utf-8")
    return output is None


def main() -> int:
    """Try every mutant, or those whose file holds one of the words given."""
    words = sys.argv[1:]
    chosen = [m for m in MUTANTS if not words or any(word in m.file for word in words)]
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(HERE, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
        for tests in dict.fromkeys(mutant.tests for mutant in chosen):
            output = failure(tests, copy)
            if output is not None:
                print(f"these tests fail without a mutation: {tests}\n{output}")
                return 1
        for mutant in chosen:
            survived = lives(mutant, copy)
            survivors += survived
            print("LIVES " if survived else "caught", f"{mutant.file}: {mutant.what}", flush=True)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
