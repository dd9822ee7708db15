"""Time from an exported program to its first result, in new processes with empty caches.

    python benchmarks/cold_start.py

Needs torch. Each row is the median of interleaved rounds: processor time of the process and its
children, and elapsed time, after the imports that each side needs. `eager_first` is the time to the
first result while a thread still compiles; torch.compile runs inductor on the same program.
Modules are loaded from byte code, as in an installation: a first run, which is not measured, writes
it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[1]
SIDES = ("structir", "eager_first", "torch.compile")
CHILD = """
import os, sys, time
import numpy as np
side, path = sys.argv[1:]
args = list(np.load(path + ".npz").values())
if side == "torch.compile":
    import torch, torch._inductor.compile_fx
else:
    import structir, structir.runtime.executable, structir.frontend.torch as frontend
    frontend.from_pt2
start, before = time.perf_counter(), sum(os.times()[:4])
if side == "torch.compile":
    program = torch.export.load(path + ".pt2").module()
    with torch.no_grad():
        torch.compile(program)(*map(torch.from_numpy, args))
else:
    module = frontend.from_pt2(path + ".pt2")
    structir.compile(module, eager_first=side == "eager_first")["main"](*args)
print(sum(os.times()[:4]) - before, time.perf_counter() - start)
sys.stdout.flush()
os._exit(0)  # a thread may still compile
"""


class Encoder(nn.Module):
    """Equal transformer layers."""

    def __init__(self, layers: int, width: int = 64) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            [
                nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
                for _ in range(layers)
            ]
        )

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


class Block(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(out) for _ in range(3)])
        self.shortcut = nn.Conv2d(channels, out, 1, stride, bias=False)

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(self.norms[1](self.second(y)) + self.norms[2](self.shortcut(x)))


def models() -> dict[str, tuple[nn.Module, tuple[int, ...]]]:
    """Returns the models with random weights, and the shapes of their inputs."""
    torch.manual_seed(0)
    perceptron = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
    widths = (3, 32, 32, 64, 64, 128, 128, 256, 256)
    strides = (2, 1, 2, 1, 2, 1, 2, 1)
    blocks = [Block(*each) for each in zip(widths[:-1], widths[1:], strides, strict=True)]
    encoders = {f"encoder, {n} layers": (Encoder(n), (2, 16, 64)) for n in (1, 12, 48)}
    return {
        "perceptron": (perceptron, (4, 32)),
        **encoders,
        "residual convolutions, 8 blocks": (nn.Sequential(*blocks), (1, 3, 64, 64)),
    }


def export(model: nn.Module, shape: tuple[int, ...], path: str) -> None:
    """Writes the exported program and its input."""
    x = torch.randn(shape)
    with torch.no_grad():
        torch.export.save(torch.export.export(model.eval(), (x,)), path + ".pt2")
    np.savez(path + ".npz", x.numpy())


def seconds(side: str, path: str) -> tuple[float, float]:
    """Returns processor time and elapsed time of one child process, whose caches are empty."""
    with tempfile.TemporaryDirectory() as folder:
        caches = {"STRUCTIR_CACHE": folder, "TORCHINDUCTOR_CACHE_DIR": folder}
        paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        environment = os.environ | caches | {"PYTHONPATH": paths}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [sys.executable, "-c", CHILD, side, path]
        run = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
    work, elapsed = map(float, run.stdout.split()[-2:])
    return work, elapsed


def rows(path: str, rounds: int, sides: list[str]) -> dict[str, list[float]]:
    """Returns the medians of each side."""
    for side in sides:
        seconds(side, path)
    samples: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side in sides:
            samples[side].append(seconds(side, path))
    return {
        side: [statistics.median(column) for column in zip(*of_side, strict=True)]
        for side, of_side in samples.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="a part of the names of the models to measure")
    parser.add_argument("--sides", nargs="+", default=list(SIDES), choices=SIDES)
    options = parser.parse_args()
    print(f"{'model':34}" + "".join([f"{side:>24}" for side in options.sides]))
    print(f"{'':34}" + f"{'CPU s    elapsed s':>24}" * len(options.sides))
    with tempfile.TemporaryDirectory() as folder:
        for name, (model, shape) in models().items():
            if options.only in name:
                path = str(Path(folder) / "model")
                export(model, shape, path)
                figures = rows(path, options.rounds, options.sides).values()
                cells = [f"{work:12.2f}{elapsed:12.2f}" for work, elapsed in figures]
                print(f"{name:34}" + "".join(cells), flush=True)


if __name__ == "__main__":
    main()
