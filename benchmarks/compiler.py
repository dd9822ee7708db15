"""Measures the compiler in time a binding: parse, print, build with deduction, compare and hash.

    python benchmarks/compiler.py                     StructIR alone, in less than a minute
    BENCH_VENVS=folder python benchmarks/compiler.py  beside Apache TVM and xDSL, in turn
    python benchmarks/compiler.py --sizes 1000 10000 --rounds 3 --budget 1   figures to publish

The folder holds virtual environments: `va` with apache-tvm==0.27.0.post1, `vx` with xdsl==0.74.0.
`closures` is LambdaLift of programs with one closure, many, nested ones and recursive ones.
Programs have 300 and 1,500 bindings; the slope is the growth of the time by that of the size.
Each line on the standard error stream is a finished process of all that are planned.
`--kinds transformer layers dag` measures chains of layers and random graphs, too.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
PASSES = (
    "Normalize",
    "CanonicalizeBindings",
    "EliminateCommonSubexpr",
    "DeadCodeElimination",
    "FoldConstant",
    "Simplify",
    "CombineParallelMatmul",
    "TopologicalSort",
    "LambdaLift",
)
FIGURES = ("parse", "parse_bare", "print", "build", "struct_equal", "struct_hash")
FIGURES += tuple(f"pass:{name}" for name in (*PASSES, "Gradient"))
FIGURES += tuple(f"closures:{kind}" for kind in ("one", "many", "nested", "recursive"))
SECTIONS = ("parse", "parse_bare", "print", "build", "equal", "passes", "closures")
SECONDS_ALLOWED = 600
# What a peer has no counterpart for, or takes too long over to be worth the wait.
NOT_ASKED = {("xdsl", "parse_bare"), ("tvm", "parse_bare"), ("xdsl", "closures")}


class Side(NamedTuple):
    """One of the systems compared, and how its script is started."""

    name: str
    python: str
    script: Path


class Figure(NamedTuple):
    """One thing measured once: the median and the least of the repeats, in seconds."""

    side: str
    section: str
    kind: str
    size: int
    seconds: float
    least: float


class Run(NamedTuple):
    """One child process: a side, asked for one section of a program at some sizes."""

    side: Side
    section: str
    kind: str
    sizes: tuple[int, ...]


Key = tuple[str, str, str, int]  # kind, section, side, size


def sides() -> list[Side]:
    """StructIR, and each peer whose environment is there."""
    own = Side("structir", sys.executable, HERE / "structir_side.py")
    venvs = os.environ.get("BENCH_VENVS")
    if not venvs:
        return [own]
    peers = [
        Side(name, str(Path(venvs) / folder / "bin" / "python"), HERE / "peers" / script)
        for name, folder, script in (("tvm", "va", "bench_tvm.py"), ("xdsl", "vx", "bench_xdsl.py"))
    ]
    return [own, *(peer for peer in peers if Path(peer.python).exists())]


def runs(asked: argparse.Namespace) -> Iterator[Run]:
    """Rounds outermost and sides innermost, so that a noisy minute meets all of them.

    StructIR times all sizes of a program in turn, in one process; peers get one for each.
    """
    for _ in range(asked.rounds):
        for kind in asked.kinds:
            for section in asked.sections:
                for side in sides():
                    if (side.name, section) in NOT_ASKED:
                        continue
                    together = [asked.sizes] if side.name == "structir" else zip(asked.sizes)
                    yield from (Run(side, section, kind, tuple(sizes)) for sizes in together)


def figures_of(run: Run, budget: float) -> Iterator[Figure]:
    command = [run.side.python, str(run.side.script), "--section", run.section, "--kind", run.kind]
    command += ["--n", *map(str, run.sizes), "--budget", str(budget)]
    paths = os.pathsep.join([str(HERE / "peers"), str(HERE.parent)])  # this tree, installed or not
    environment = os.environ | {"PYTHONPATH": paths}
    finished = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS_ALLOWED,
        check=False,
    )
    rows = [json.loads(line) for line in finished.stdout.splitlines() if line.startswith("{")]
    if finished.returncode or not rows:
        said = finished.stderr.strip().splitlines()[-1:]
        print(f"{run.side.name} {run.section} {run.sizes}: {said}", file=sys.stderr)
    yield from (figure for row in rows if (figure := figure_of(row)) is not None)


def figure_of(row: dict[str, Any]) -> Figure | None:
    if row["seconds"] is None:
        print(f"{row['peer']} {row['section']} {row['n']}: {row['error']}", file=sys.stderr)
        return None
    least = row.get("min", row["seconds"])
    return Figure(row["peer"], row["section"], row["kind"], row["n"], row["seconds"], least)


def medians(figures: Iterable[Figure]) -> dict[Key, float]:
    grouped: dict[Key, list[float]] = defaultdict(list)
    for figure in figures:
        key = (figure.kind, figure.section, figure.side, figure.size)
        grouped[key].append(figure.seconds)
    return {key: statistics.median(seconds) for key, seconds in grouped.items()}


def least(figures: Iterable[Figure]) -> dict[Key, float]:
    grouped: dict[Key, float] = defaultdict(lambda: math.inf)
    for figure in figures:
        key = (figure.kind, figure.section, figure.side, figure.size)
        grouped[key] = min(grouped[key], figure.least)
    return dict(grouped)


def slope(seconds: dict[Key, float], kind: str, section: str, side: str) -> str:
    """How the time grows with the size, from the least times: they feel other load the least."""
    points = sorted(
        (key[3], time) for key, time in seconds.items() if key[:3] == (kind, section, side)
    )
    if len(points) < 2:
        return ""
    (size, time), (larger, longer) = points[0], points[-1]
    return f"{math.log(longer / time) / math.log(larger / size):.2f}"


def ratio(seconds: dict[Key, float], key: Key) -> str:
    """How many times StructIR's time a peer takes."""
    own = seconds.get((key[0], key[1], "structir", key[3]))
    if key[2] == "structir" or own is None or key not in seconds:
        return ""
    return f" ({seconds[key] / own:.1f}x)"


def cell(seconds: dict[Key, float], key: Key) -> str:
    if key not in seconds:
        return "-"
    return f"{seconds[key] / key[3] * 1e6:.1f}{ratio(seconds, key)}"


def table_of(kind: str, sizes: list[int], figures: list[Figure]) -> Table:
    caption = "median us a binding; in brackets, a peer's time in StructIR's"
    table = Table("section", "side", title=kind, caption=caption)
    for column in (*(f"{size:,}" for size in sizes), "slope"):
        table.add_column(column, justify="right")
    typical, quickest = medians(figures), least(figures)
    for section in FIGURES:
        for side in dict.fromkeys(figure.side for figure in figures):
            cells = [cell(typical, (kind, section, side, size)) for size in sizes]
            if any(text != "-" for text in cells):
                table.add_row(section, side, *cells, slope(quickest, kind, section, side))
    return table


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[300, 1500])
    parser.add_argument("--kinds", nargs="+", default=["transformer"])
    parser.add_argument("--sections", nargs="+", default=list(SECTIONS), choices=SECTIONS)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--budget", type=float, default=0.2, help="seconds for one figure")
    parser.add_argument("--json", type=Path, help="also write the single figures there")
    return parser.parse_args()


def main() -> int:
    asked = arguments()
    console = Console()
    planned = list(runs(asked))
    figures: list[Figure] = []
    for number, run in enumerate(planned, start=1):
        start = time.perf_counter()
        figures += figures_of(run, asked.budget)
        seconds = time.perf_counter() - start
        done = f"{number}/{len(planned)} {run.side.name} {run.kind} {run.section}: {seconds:.1f} s"
        print(done, file=sys.stderr, flush=True)
    for kind in asked.kinds:
        console.print(table_of(kind, asked.sizes, figures))
    if asked.json:
        lines = [json.dumps(figure._asdict()) for figure in figures]
        asked.json.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0 if any(figure.side == "structir" for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
