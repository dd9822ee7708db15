"""Measures the execution cost of a program: times it at sample sizes, and fits the rates."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import attrs

from structir.distributed.cluster_model import ClusterModel
from structir.errors import StructIRError
from structir.ir import dims
from structir.ir.dims import Sym
from structir.ir.expr import Function
from structir.ir.module import IRModule
from structir.ir.op import clear_on_redeclaration
from structir.ir.struct_info import TensorStructInfo
from structir.lazy import lazy_module
from structir.projections.boxes import whole
from structir.projections.execution_cost import SECONDS, ExecutionCost, LoopCost, program_cost
from structir.projections.program import leaves, program_of
from structir.runtime.files.cached_plans import has_built_in_ops
from structir.system.cache import CacheEntry, digest, store
from structir.targets.compile import compile as compile_module
from structir.targets.cpu.identity import machine_identity

np = lazy_module("numpy")

ROUNDS = 5  # repetitions of a sample; the fastest counts
Clock = Callable[[Callable[[], Any]], float]


@attrs.frozen
class TimedSample:
    """The time of one execution at sizes, and its operations by the declared costs."""

    sizes: Mapping[str, int]
    seconds: float
    operations: float


@attrs.frozen
class MeasuredCost:
    """The cost of a program in seconds: a rate per call, per point and per index of each axis."""

    cost: ExecutionCost
    samples: tuple[TimedSample, ...]

    @property
    def flops_per_second(self) -> float:
        """The operations per second over all samples."""
        seconds = sum([s.seconds for s in self.samples])
        return sum([s.operations for s in self.samples]) / seconds if seconds else 0.0

    def model(self, base: ClusterModel | None = None) -> ClusterModel:
        """Returns a cluster model whose workers compute as fast as was measured."""
        return attrs.evolve(base or ClusterModel(), flops=self.flops_per_second)

    def seconds(self, sizes: Mapping[str, int]) -> float:
        """Returns the fitted time at sizes."""
        return float(self.cost.total(sizes))


_measured: dict[str, MeasuredCost] = {}
clear_on_redeclaration(_measured.clear)


def measure_cost(
    program: IRModule | Function,
    sizes: Sequence[Mapping[str, int]],
    *,
    name: str = "main",
    num_threads: int | None = 1,
    clock: Clock | None = None,
) -> MeasuredCost:
    """Returns the cost of a function, fitted to its times at sample sizes.

    The axes of its index space are the symbolic dims of its parameters. Each sample gives all of
    them; as many samples as axes plus two determine all rates. `clock` returns the seconds of a
    call, by default the fastest of some. Results are cached by processor, program, sizes and
    threads, also on disk, as compiled programs are. Raises
    StructIRError for samples that lack a dim.
    """
    module = program if isinstance(program, IRModule) else IRModule({name: program})
    if clock is not None:
        return _measure(module, sizes, name, num_threads, clock)
    samples = json.dumps([sorted(each.items()) for each in sizes])
    key = digest("cost", machine_identity(), module.script(), name, samples, str(num_threads))
    if key not in _measured:
        cache = store() if has_built_in_ops(module) else None
        entry = None if cache is None else cache.read(key)
        measured = None if entry is None else _restored(entry)
        if measured is None:
            measured = _measure(module, sizes, name, num_threads, fastest)
            if cache is not None:
                cache.write(key, _entry(measured))
        _measured[key] = measured
    return _measured[key]


def _entry(measured: MeasuredCost) -> CacheEntry:
    """Returns the entry of a measurement in the cache: its samples, from which the rates follow."""
    (term,) = measured.cost.terms
    samples = [[sample.sizes, sample.seconds, sample.operations] for sample in measured.samples]
    return CacheEntry({"axes": term.axes, "samples": samples}, b"")


def _restored(entry: CacheEntry) -> MeasuredCost | None:
    """Returns the measurement of an entry; None if the entry is not one."""
    try:
        samples = tuple([TimedSample(*sample) for sample in entry.facts["samples"]])
        return MeasuredCost(fitted(tuple(entry.facts["axes"]), samples), samples)
    except (KeyError, TypeError):
        return None


def fastest(call: Callable[[], Any]) -> float:
    """Returns the least time of some calls, in seconds."""
    call()
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def _measure(
    module: IRModule,
    sizes: Sequence[Mapping[str, int]],
    name: str,
    num_threads: int | None,
    clock: Clock,
) -> MeasuredCost:
    function = module.functions.get(name)
    if not isinstance(function, Function):
        raise StructIRError(f"no function `{name}` in the program", code="E0909")
    run = compile_module(module, num_threads=num_threads)[name]
    axes = _axes(function)
    samples = []
    for each in sizes:
        missing = [axis for axis in axes if axis not in each]
        if missing:
            message = f"sample {dict(each)}: expected a size for the dim `{missing[0]}`"
            raise StructIRError(message, code="E0663")
        arguments = _arguments(function, each)
        seconds = clock(lambda arguments=arguments: run(*arguments))  # type: ignore[misc]
        samples.append(TimedSample(dict(each), seconds, _operations(module, function, each)))
    return MeasuredCost(fitted(axes, samples), tuple(samples))


def _axes(function: Function) -> tuple[str, ...]:
    """Returns the symbolic dims of the parameters, in order."""
    infos = [p.struct_info for p in function.params]
    sizes = [d for info in infos if isinstance(info, TensorStructInfo) for d in _dims(info)]
    symbols = [s for d in sizes for s in sorted(dims.syms(d), key=lambda s: s.order)]
    return tuple(dict.fromkeys(s.name for s in symbols))


def _dims(info: TensorStructInfo) -> Sequence[Any]:
    return info.dims if isinstance(info.dims, tuple) else ()


def _arguments(function: Function, sizes: Mapping[str, int]) -> list[Any]:
    """Returns arrays of ones for the parameters."""
    arrays = []
    for param in function.params:
        info = param.struct_info
        if not isinstance(info, TensorStructInfo) or not isinstance(info.dims, tuple):
            message = f"{param.name}: expected a tensor of known rank, found {info}"
            raise StructIRError(message, code="E0663")
        shape = [_number(dim, sizes) for dim in info.dims]
        arrays.append(np.ones(shape, info.dtype))
    return arrays


def _number(dim: Any, sizes: Mapping[str, int]) -> int:
    if isinstance(dim, int):
        return dim
    return dims.evaluate(dim, {s: sizes[s.name] for s in dims.syms(dim)})


def _operations(module: IRModule, function: Function, sizes: Mapping[str, int]) -> float:
    by_name: dict[Sym | str, int] = {name: size for name, size in sizes.items()}
    program = program_of(function, by_name, module=module, parts=True)
    wanted = {key: whole(program.shapes[key]) for key in leaves(program.result)}
    return program_cost(program, program.required_regions(wanted))


def fitted(axes: tuple[str, ...], samples: Sequence[TimedSample]) -> ExecutionCost:
    """Returns the rates that fit samples best, none of them negative.

    Least squares of the relative errors, without the rates that would be negative.
    """
    rows = np.array([_features(axes, sample.sizes) for sample in samples], "float64")
    seconds = np.array([sample.seconds for sample in samples])
    weights = 1 / np.maximum(seconds, 1e-12)
    scale = np.maximum(np.abs(rows).max(axis=0), 1)
    active = list(range(rows.shape[1]))
    rates = np.zeros(rows.shape[1])
    while active:
        matrix = rows[:, active] / scale[active] * weights[:, None]
        solution = np.linalg.lstsq(matrix, seconds * weights, rcond=None)[0]
        if (solution >= 0).all():
            rates[active] = solution / scale[active]
            break
        active.pop(int(np.argmin(solution)))
    call, point, *per_axis = [float(rate) for rate in rates]
    term = LoopCost(axes, (0,) * len(axes), point, tuple(per_axis), call)
    return ExecutionCost((term,), SECONDS)


def _features(axes: tuple[str, ...], sizes: Mapping[str, int]) -> list[int]:
    """Returns the factors of the rates: a call, its points, and the extents of the axes."""
    extents = [sizes[axis] for axis in axes]
    return [1, reduce(lambda a, b: a * b, extents, 1), *extents]
