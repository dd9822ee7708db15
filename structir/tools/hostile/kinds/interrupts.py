"""Ctrl-C during a compilation raises KeyboardInterrupt within a second of processor time, and the
next compilation is sound."""

from __future__ import annotations

import os
import signal
import threading
import time
from random import Random
from typing import Any

import attrs
import numpy as np

from structir.lazy import lazy_module
from structir.system.cache import LOCATION
from structir.tools.comparison import Disagreement

structir = lazy_module("structir")

TEST_SEEDS = 2
BATCH = 3  # the first compilation of a process also imports modules and reads registries
KERNELS = 3
LONGEST = 1.0  # seconds of processor time until KeyboardInterrupt
PATIENCE = 20.0  # seconds after compilation; then the interrupt is lost
UNARY = ("exp", "tanh", "sigmoid", "sin", "nn.gelu", "nn.softmax", "nn.silu", "erf")
SCANS = (
    "cumsum({}, axis=0)",
    "cumsum({}, axis=1)",
    "sum({}, axis=1, keepdims=True)",
    "sort({}, axis=1)",
)


@attrs.frozen
class InterruptedProgram:
    """A program, and the processor time after which its compilation is interrupted."""

    text: str
    delay: float

    def __str__(self) -> str:
        return f"{self.text}\ninterrupted after {self.delay} s"


def sample(random: Random) -> InterruptedProgram:
    """Generates a program of several kernels."""
    lines = []
    for k in range(KERNELS):
        inner = f"R.{random.choice(UNARY)}(x{k} * {random.random():.3f})"
        lines.append(f"    x{k + 1} = R.{random.choice(SCANS).format(inner)} + x{k}")
    head = '@R.function\ndef main(x0: R.Tensor(("n", "m"), "float32")):'
    return InterruptedProgram(
        "\n".join([head, *lines, f"    return x{KERNELS}\n"]),
        random.uniform(0, random.choice((0.8, 2.5))),
    )


def check(case: InterruptedProgram) -> None:
    """Interrupts the compilation; then compiles again and compares the results."""
    os.environ[LOCATION] = "off"
    signal.signal(signal.SIGINT, signal.default_int_handler)
    module = structir.parse(case.text)
    pressed = threading.Event()
    times: list[float] = []
    presser = threading.Thread(target=_press, args=(case.delay, times, pressed))
    presser.start()
    try:
        structir.compile(module)
        pressed.set()
        time.sleep(PATIENCE)
        raise Disagreement("the interrupt was lost")
    except KeyboardInterrupt:
        latency = time.process_time() - times[0]
    finally:
        pressed.set()
        presser.join()
    if latency > LONGEST:
        raise Disagreement(f"KeyboardInterrupt after {latency:.2f} s of processor time")
    _require_sound(module)


def _press(delay: float, times: list[float], is_over: threading.Event) -> None:
    """Interrupts the process after some processor time, or once it has compiled."""
    start = time.process_time()
    while time.process_time() - start < delay and not is_over.wait(0.002):
        pass
    times.append(time.process_time())
    os.kill(os.getpid(), signal.SIGINT)


def _require_sound(module: Any) -> None:
    x = np.random.default_rng(0).standard_normal((3, 5), np.float32)
    expected = structir.interpret(module, "main", x)
    np.testing.assert_allclose(structir.compile(module)["main"](x), expected, rtol=1e-3, atol=1e-4)
