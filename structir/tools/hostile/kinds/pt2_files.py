"""Changed `.pt2` archives are imported, or rejected with a StructIR error.

The archive in the folder `data` was written by torch 2.14: linear and convolution layers, a
conditional, symbolic dims, weights.
"""

from __future__ import annotations

import io
import json
import lzma
import warnings
import zipfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from structir.errors import StructIRError
from structir.frontend.torch import from_pt2
from structir.tools import hostile
from structir.tools.hostile.mutation import changed_bytes, mutated

FILE = Path(hostile.__path__[0]) / "data" / "program.pt2.xz"
JSON = ("models/model.json", "model_weights_config.json", "model_constants_config.json")
OTHERS = ({"as_int": 3}, {"as_none": True}, {"as_expr": {"expr_str": "9**9**9"}}, [1], "s77", "x")


@cache
def _parts() -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(lzma.decompress(FILE.read_bytes()))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def sample(random: Random) -> bytes:
    """Generates an archive: changed JSON, changed weights, or changed bytes of the whole."""
    parts = dict(_parts())
    if random.random() < 0.15:
        return changed_bytes(_archive(parts), random)
    name = next(n for n in sorted(parts) if n.endswith(JSON[0]))
    if random.random() < 0.2:
        name = random.choice(sorted(parts))
    if name.endswith(JSON):
        value: Any = json.loads(parts[name])
        for _ in range(random.randint(1, 3)):
            value = mutated(value, random, OTHERS)
        parts[name] = json.dumps(value).encode()
    else:
        parts[name] = changed_bytes(parts[name], random)
    return _archive(parts)


def _archive(parts: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return content.getvalue()


def check(content: bytes) -> None:
    """Imports the archive."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from_pt2(io.BytesIO(content))
        except StructIRError as error:
            str(error)
