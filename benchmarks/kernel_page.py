"""Writes the results of `kernels.py` as the table of `docs/performance.md`."""

import os
from datetime import date
from pathlib import Path
from typing import Any

from kernel_cases import PEERS
from kernel_peers import OWN
from processor import processor

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
START, END = "<!-- kernels: begin -->", "<!-- kernels: end -->"
Row = dict[str, Any]


def described(rows: list[Row], rounds: int, seconds: float) -> Row:
    """Returns the rows with date, machine and settings of the run."""
    return {
        "date": date.today().isoformat(),
        "machine": processor(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "rounds": rounds,
        "seconds": round(seconds),
        "rows": rows,
    }


def table(found: Row) -> str:
    """Returns the table: times of StructIR, and ratios of the peers."""
    head = (
        f"Measured {found['date']} on {found['machine']}, {found['cores']} cores, load "
        f"{found['load']}; float32, one thread, medians of {found['rounds']} interleaved samples. "
        "A ratio is the time of the peer divided by that of StructIR. Targets are in brackets; "
        "missed targets are bold."
    )
    lines = [head, "", f"| work | StructIR | | {' | '.join(PEERS)} |"]
    lines.append("|---|---|---|" + "---|" * len(PEERS))
    lines += [_line(row) for row in found["rows"] if "times" in row]
    two = [row for row in found["rows"] if "two" in row]
    if two:
        lines += [
            "",
            "| speed-up of two threads, wall-clock time | StructIR (1.8) | ONNX Runtime |",
        ]
        lines += ["|---|---|---|", *map(_two_line, two)]
    return "\n".join(lines)


def _line(row: Row) -> str:
    times, own = row["times"], row["times"][OWN]["median"]
    rate = f"{row['flops'] / own / 1e9:.0f} GFLOP/s" if row["flops"] else ""
    rate = rate or (f"{row['bytes'] / own / 1e9:.1f} GB/s" if row["bytes"] else "")
    cells = [_ratio(times.get(peer), own, row["asked"].get(peer)) for peer in PEERS]
    most = row["microseconds"]
    held = f"{_time(own)}" if most is None else _limited(own, most)
    return f"| {row['case']} | {held} | {rate} | {' | '.join(cells)} |"


def _limited(seconds: float, most: float) -> str:
    text = f"{_time(seconds)} ({most:g} us)"
    return text if seconds * 1e6 <= most else f"**{text}**"


def _ratio(times: dict[str, float] | None, own: float, asked: float | None) -> str:
    if times is None:
        return ""
    ratio = times["median"] / own
    text = f"{ratio:.2f}" if ratio < 9.995 else f"{ratio:.0f}"
    if asked is None:
        return text
    text = f"{text} ({asked:g})"
    return text if ratio >= asked else f"**{text}**"


def _two_line(row: Row) -> str:
    found = [time["median"] for time in row["two"]]
    ratios = [f"{one / two:.2f}" for one, two in zip(found[::2], found[1::2], strict=True)]
    return f"| {row['case']} | {' | '.join((*ratios, '')[:2])} |"


def _time(seconds: float) -> str:
    units = ((1e6, "us"), (1e3, "ms"), (1, "s"))
    factor, unit = next((u for u in units if seconds * u[0] < 999.5), units[-1])
    return f"{seconds * factor:#.3g}".rstrip(".") + f" {unit}"


def write(found: Row) -> None:
    """Put the table in its place on the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(START)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{START}\n\n{table(found)}\n\n{END}{after}", encoding="utf-8")
