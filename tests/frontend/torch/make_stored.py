"""Writes the stored programs: `python tests/frontend/torch/make_stored.py`, where torch is."""

from __future__ import annotations

import copy
import io
import json
import lzma
import re
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2]))

from tests.frontend.torch import complex_cases, models, op_cases  # noqa: E402


class Group(torch.nn.Module):
    """One module for all cases: operands of all cases in, results of all cases out."""

    def __init__(self, cases: list[op_cases.Case]) -> None:
        super().__init__()
        self.cases = cases

    def forward(self, *operands: Any) -> Any:
        given, made = list(operands), []
        for _, act, own in self.cases:
            taken, given = given[: len(own)], given[len(own) :]
            made.append(act(*taken))
        return made


def flat(value: Any) -> list[Any]:
    """Returns the tensors of a nested result in order; numbers become tensors of rank 0, and the
    parts of complex tensors are along a last axis."""
    if isinstance(value, torch.Tensor):
        value = value.detach().resolve_neg()
        pairs = torch.view_as_real(value.resolve_conj()) if value.is_complex() else value
        return [pairs.numpy().copy()]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, tuple | list):
        return [item for part in value for item in flat(part)]
    return [np.asarray(value)]


def write(name: str, program: Any, runs: list[tuple[list[Any], list[Any]]]) -> None:
    held = io.BytesIO()
    torch.export.save(program, held)
    held = slimmed(held)
    arrays = {"program": np.frombuffer(held.getvalue(), "uint8")}
    for k, (given, expected) in enumerate(runs):
        arrays |= {f"in_{k}_{i}": a for i, a in enumerate(given)}
        arrays |= {f"out_{k}_{i}": a for i, a in enumerate(expected)}
    whole = io.BytesIO()
    np.savez(whole, **arrays)
    path = HERE / "stored" / f"{name}.npz.xz"
    path.write_bytes(lzma.compress(whole.getvalue(), preset=9))
    print(path.name, path.stat().st_size)


def slimmed(held: io.BytesIO) -> io.BytesIO:
    """Returns the archive without pickled sample operands and absolute paths."""
    made = io.BytesIO()
    with zipfile.ZipFile(held) as old, zipfile.ZipFile(made, "w") as new:
        for info in old.infolist():
            data = old.read(info)
            if "sample_inputs" in info.filename:
                continue
            if info.filename.endswith("models/model.json"):
                text = data.decode()
                text = re.sub(r'File \\"([^"\\]*)', _shortened, text)
                data = json.dumps(json.loads(text)).encode()
            new.writestr(zipfile.ZipInfo(info.filename), data)
    return made


def _shortened(found: re.Match[str]) -> str:
    """Returns a file without absolute paths, except for those in torch."""
    _, inside, behind = found[1].partition("site-packages/")
    return f'File \\"{behind if inside else Path(found[1]).name}'


def run(
    model: Any, operands: tuple[Any, ...], extra: Callable[..., Any]
) -> tuple[list[Any], list[Any]]:
    """Returns the results of a model, and its buffers and operands afterwards."""
    model = copy.deepcopy(model)
    given = [o.clone() for o in operands]
    before = extra(model)
    with torch.no_grad():
        expected = flat(model(*given))
    changed = [a for a, o in zip(given, operands, strict=True) if not torch.equal(a, o)]
    inputs = [*flat(operands), *flat([b.clone() for b in before])]
    return inputs, [*expected, *flat(changed), *flat(extra(model))]


def main(wanted: list[str]) -> None:
    (HERE / "stored").mkdir(exist_ok=True)
    torch.manual_seed(3)
    for name, cases in complex_cases.GROUPS.items():
        operands = tuple([o for _, _, own in cases for o in own])
        if not wanted or name in wanted:
            module = Group(cases)
            program = torch.export.export(module, operands)
            write(f"ops_{name}", program, [(flat(operands), flat(module(*operands)))])
    for name, example in models.examples().items():
        if wanted and name not in wanted:
            continue
        program = torch.export.export(
            copy.deepcopy(example.model), example.operands, dynamic_shapes=example.dynamic
        )
        states = state_of(name)
        every = (example.operands, *example.others)
        write(f"model_{name}", program, [run(example.model, o, states) for o in every])


WRITTEN = {"cached": ("steps", "seen"), "generator": ("keys", "values")}


def state_of(name: str) -> Callable[[Any], list[Any]]:
    """Returns the buffers that a model mutates."""
    written = WRITTEN.get(name, ())
    return lambda model: [getattr(model, n).clone() for n in written]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1:])
