"""Measures single ops, fused patterns and an encoder beside their peers, in turn, in one process.

    python benchmarks/kernels.py [PART OF A NAME ...]

Peers that are not installed are left out, with a word on how to get them (`pip install
structir[bench]` brings all). Without names, the figures go to `benchmarks/results/kernels.json`,
and where no peer was missing into the table of `docs/performance.md`.

Everything runs on one thread, bound to one core, and takes the processor's time, not the clock's:
what else the machine does then makes little difference. Freed memory is kept, in large pages, for
all. What two threads are worth is taken by the clock, in a process of its own.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TWO = "--two-threads" in sys.argv
LIBRARIES = ("STRUCTIR", "OPENBLAS", "MKL", "OMP", "NUMBA", "VECLIB")
KEPT = ("mmap_threshold=17179869184", "trim_threshold=17179869184", "hugetlb=1")
ENVIRONMENT = {
    **{f"{library}_NUM_THREADS": "1" for library in LIBRARIES},
    "GLIBC_TUNABLES": ":".join([f"glibc.malloc.{setting}" for setting in KEPT]),
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "JAX_CPU_ENABLE_ASYNC_DISPATCH": "false",  # a second thread would only be in the way
    "TF_CPP_MIN_LOG_LEVEL": "2",
}
if not ENVIRONMENT.items() <= os.environ.items():  # libraries read it when they are loaded
    if hasattr(os, "sched_setaffinity"):
        one = {max(os.sched_getaffinity(0))}
        os.sched_setaffinity(0, range(os.cpu_count() or 1) if TWO else one)
    given = os.environ | ENVIRONMENT
    given["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(HERE.parent / "examples"), os.environ.get("PYTHONPATH", "")])
    )
    os.execve(sys.executable, [sys.executable, *sys.argv], given)

import numpy as np  # noqa: E402
from rich.console import Console  # noqa: E402

import kernel_page  # noqa: E402
from kernel_cases import FAMILIES, PEERS, Case, encoders  # noqa: E402
from kernel_peers import (  # noqa: E402
    OWN,
    Call,
    arguments,
    by_onnxruntime,
    library,
    missing,
    own,
    sides,
)

Row = dict[str, Any]
RESULTS = HERE / "results" / "kernels.json"
TWO_THREADED = ("gelu-tanh 10,", "exp 10,", "relu(x*a+b) 10,", "softmax 10,", "layer_norm 10,")
TWO_THREADED += ("matmul 1024x",)


def sample(run: Call, calls: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(calls):
        run()
    return (clock() - start) / calls


def measured(
    runs: list[Call], rounds: int, shortest: float, clock: Callable[[], float]
) -> list[dict[str, float]]:
    """Medians of samples in turn, and the best ones, in seconds."""
    calls = []
    for run in runs:
        run()
        calls.append(max(1, int(shortest / max(sample(run, 1, clock), 1e-9))))
        calls[-1] = max(1, int(shortest / max(sample(run, min(calls[-1], 100), clock), 1e-9)))
    samples = [
        [sample(run, count, clock) for run, count in zip(runs, calls, strict=True)]
        for _ in range(rounds)
    ]
    pairs = zip(np.median(samples, axis=0), np.min(samples, axis=0), strict=True)
    return [{"median": float(median), "best": float(best)} for median, best in pairs]


def first(result: Any) -> Any:
    """A result, the first one of several, as an array."""
    return np.asarray(result[0] if isinstance(result, tuple | list) else result)


def works(name: str, run: Call) -> bool:
    """Whether a side runs at all; ours must, a peer may lack a compiler."""
    try:
        run()
    except Exception as error:
        if name == OWN:
            raise
        print(f"{name} is left out: {error}", file=sys.stderr)
        return False
    return True


def one_thread(case: Case, asked: argparse.Namespace) -> Row:
    """A case by all its sides, which must agree."""
    given = arguments(case)
    made = {name: run for name, run in sides(case, given, set(asked.peers)) if works(name, run)}
    results = [first(run()) for run in made.values()]
    for name, other in zip(made, results, strict=True):
        bound = 1e-3 * max(float(np.abs(other).max(initial=0)), 1e-3)
        message = f"{case.name}: {name}"
        np.testing.assert_allclose(results[0], other, rtol=2e-3, atol=bound, err_msg=message)
    del results
    times = measured(list(made.values()), asked.rounds, asked.seconds, time.process_time)
    return {
        "case": case.name,
        "asked": case.asked,
        "microseconds": case.microseconds,
        "flops": case.flops,
        "bytes": case.bytes,
        "times": dict(zip(made, times, strict=True)),
    }


def two_threads(case: Case, asked: argparse.Namespace) -> Row:
    """A case on one thread and on two, by us and by ONNX Runtime."""
    given = arguments(case)
    runs = [partial(own(case, threads), *given) for threads in (1, 2)]
    if library("onnxruntime"):
        runs += [by_onnxruntime(case, given, threads) for threads in (1, 2)]
    times = measured(runs, asked.rounds, asked.seconds, time.perf_counter)
    return {"case": case.name, "two": times}


def chosen(names: list[str]) -> list[Case]:
    families = [
        f for f in FAMILIES if not names or f is not encoders or "MiniLM" in " ".join(names)
    ]
    cases = [case for family in families for case in family()]
    return [c for c in cases if not names or any(name in c.name for name in names)]


def of_two_threads(asked: argparse.Namespace) -> list[Row]:
    """The rows that another process finds, which may use every core."""
    if (os.cpu_count() or 1) < 2 or not hasattr(os, "sched_setaffinity"):
        return []
    command = [sys.executable, __file__, "--two-threads", "--rounds", str(asked.rounds)]
    environment = {k: v for k, v in os.environ.items() if k != "GLIBC_TUNABLES"}
    environment |= {"PYTHONPATH": os.environ["PYTHONPATH"]}
    done = subprocess.run(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        print("two threads are left out", file=sys.stderr)
        return []
    found: list[Row] = json.loads(done.stdout.splitlines()[-1])
    return found


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="only cases whose name has one of these in it")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), help=", ".join(PEERS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.01, help="of one sample, at least")
    parser.add_argument("--two-threads", action="store_true", help="only those rows, as JSON")
    return parser.parse_args()


def main() -> None:
    asked, console = options(), Console(stderr=True)
    if asked.two_threads:
        print(json.dumps([two_threads(case, asked) for case in chosen(list(TWO_THREADED))]))
        return
    for text in missing():
        console.print(f"not installed, left out: {text}")
    start, rows = time.perf_counter(), list[Row]()
    with console.status("measuring") as status:
        torch = library("torch")
        with torch.inference_mode() if torch else console.capture():
            for case in chosen(asked.names):
                status.update(f"{case.name}, {time.perf_counter() - start:.0f} s")
                rows.append(one_thread(case, asked))
        if not asked.names:
            status.update("two threads")
            rows += of_two_threads(asked)
    found = kernel_page.described(rows, asked.rounds, time.perf_counter() - start)
    print(kernel_page.table(found))
    if not asked.names:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        if not missing():
            kernel_page.write(found)


if __name__ == "__main__":
    main()
