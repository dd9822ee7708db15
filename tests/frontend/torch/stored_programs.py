"""Stored programs with operands and torch's results; reading them needs no torch."""

from __future__ import annotations

import io
import lzma
from pathlib import Path
from typing import Any

import attrs
import numpy as np

FOLDER = Path(__file__).parent / "stored"
NAMES = sorted(p.name.removesuffix(".npz.xz") for p in FOLDER.glob("*.npz.xz"))


@attrs.frozen(eq=False)
class Stored:
    """A `.pt2` file, and runs of it: operands and results."""

    program: bytes
    runs: tuple[tuple[list[Any], list[Any]], ...]


def stored(name: str) -> Stored:
    """A stored program by its name."""
    data = lzma.decompress((FOLDER / f"{name}.npz.xz").read_bytes())
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        found = {k: arrays[k] for k in arrays.files}
    count = 1 + max(int(k.split("_")[1]) for k in found if k.startswith("out_"))
    runs = [(_listed(found, f"in_{k}_"), _listed(found, f"out_{k}_")) for k in range(count)]
    return Stored(found["program"].tobytes(), tuple(runs))


def _listed(arrays: dict[str, Any], prefix: str) -> list[Any]:
    return [arrays[f"{prefix}{k}"] for k in range(sum(n.startswith(prefix) for n in arrays))]
