"""Measures compiled programs against NumPy op by op, each on one thread, in turn.

    python benchmarks/run_time.py

Small programs have 1e3, 1e5 and 1e7 elements of float32; the MiniLM encoder has random weights.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
LIBRARIES = ("STRUCTIR", "OPENBLAS", "MKL", "OMP", "NUMBA", "VECLIB")
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in LIBRARIES}


def measured(asked: argparse.Namespace, progress: Console) -> list[dict[str, Any]]:
    """What the other process has measured; it starts with the threads already set."""
    command = [sys.executable, str(HERE / "run_time_side.py"), "--rounds", str(asked.rounds)]
    command += ["--elements", *map(str, asked.elements), "--batches", *asked.batches]
    path = os.pathsep.join([str(HERE.parent / "examples"), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | ONE_THREAD | {"PYTHONPATH": path.rstrip(os.pathsep)}
    rows = []
    with (
        progress.status("compiling") as status,
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as child,
    ):
        assert child.stdout is not None
        for line in child.stdout:
            rows.append(json.loads(line))
            status.update(f"measured {rows[-1]['program']} at {rows[-1]['sizes']}")
    if child.returncode:
        raise SystemExit(child.returncode)
    return rows


def time_text(seconds: float) -> str:
    """Three figures in the unit that suits."""
    units = ((1e6, "us"), (1e3, "ms"), (1, "s"))
    factor, unit = next((u for u in units if seconds * u[0] < 999.5), units[-1])
    return f"{seconds * factor:#.3g}".rstrip(".") + f" {unit}"


def table_of(rows: list[dict[str, Any]], rounds: int) -> Table:
    caption = f"float32; medians of {rounds} samples in turn; one thread, of BLAS and of kernels"
    table = Table("program", title="Compiled and NumPy op by op", caption=caption)
    for column in ("sizes", "NumPy", "compiled", "times as fast"):
        table.add_column(column, justify="right")
    order = [row["program"] for row in rows]
    for row in sorted(rows, key=lambda row: order.index(row["program"])):
        times = time_text(row["numpy"]), time_text(row["compiled"])
        table.add_row(row["program"], row["sizes"], *times, f"{row['numpy'] / row['compiled']:.2f}")
    return table


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--elements", type=int, nargs="*", default=[10**3, 10**5, 10**7])
    parser.add_argument("--batches", nargs="*", default=["1x16", "8x64"], metavar="BATCHxSEQ")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path, help="also write the figures there")
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    rows = measured(asked, Console(stderr=True))
    Console().print(table_of(rows, asked.rounds))
    if asked.json:
        lines = [json.dumps(row) for row in rows]
        asked.json.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
