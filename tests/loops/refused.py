"""A step that is refused, and what it computes without the refusal."""

import sys
from random import Random
from typing import Any

import attrs
import numpy as np
import pytest

from structir.errors import Diagnostic, DiagnosticError
from structir.ir import dims
from structir.ir.expr import Var
from structir.ir.kernel import Kernel
from structir.loops.primitives import find_primitive
from structir.loops.schedule.joining import KernelUse, joined
from structir.loops.schedule.refusal import ScheduleError
from tests.loops.refusals import Refusal, refusal_of, remove
from tests.loops.running import Arrays, arguments, parsed, parsed_all, run

HEAD = (
    '@I.kernel\ndef f(x: R.Tensor(("n", "m"), "float32"), out: R.Tensor(("n", "m"), "float32")):\n'
)


@attrs.frozen
class Case:
    """A step that is refused; without its refusals it passes. `checks` are functions, as
    `module.name`, that are replaced instead, where a check also computes what the step needs."""

    name: str
    source: str  # of a kernel, or the body of one with sizes n and m
    step: tuple[Any, ...] = ()
    options: dict[str, Any] = attrs.field(factory=dict)
    checks: dict[str, Any] = attrs.field(factory=dict)
    before: tuple[tuple[Any, ...], ...] = ()
    sizes: tuple[int, ...] = (5, 6)
    code: str = "E1117"
    locations: int = 2

    @property
    def title(self) -> str:
        return f"{self.step[0]}: {self.name}"

    def kernel(self) -> Any:
        """Returns the kernel before the step; None if the source is empty."""
        if not self.source:
            return None
        body = "\n".join(f"    {line}" for line in self.source.strip().splitlines())
        kernel = parsed(self.source if "@I.kernel" in self.source else HEAD + body)
        for name, *args in self.before:
            kernel = find_primitive(name)(kernel, *args)
        return kernel

    def apply(self, kernel: Any) -> Kernel:
        """Returns the kernel after the step."""
        name, *args = self.step
        return find_primitive(name)(kernel, *args, **self.options)

    def expected(self, kernel: Any, arrays: Arrays, sizes: dict[Any, int]) -> Arrays:
        """Returns the results of the kernel before the step."""
        return run(kernel, arrays, sizes)

    def refused(self, kernel: Any) -> tuple[Refusal, Diagnostic]:
        """Returns the refusal of the step, and its message."""
        with pytest.raises(ScheduleError) as caught:
            self.apply(kernel)
        (diagnostic,) = caught.value.diagnostics
        return refusal_of(caught.value), diagnostic

    def unchecked(self, kernel: Any, patch: pytest.MonkeyPatch) -> Kernel:
        """Returns the kernel after the step, without the checks that refuse it."""
        for path, replacement in self.checks.items():
            module, _, function = path.rpartition(".")
            patch.setattr(sys.modules[f"structir.loops.{module}"], function, replacement)
        removed: list[Refusal] = []
        while True:
            try:
                return self.apply(kernel)
            except ScheduleError as error:
                assert not self.checks and refusal_of(error) not in removed
                removed.append(refusal_of(error))
                remove(removed, patch)

    def computes_the_same(self, kernel: Any, new: Kernel) -> bool:
        """Whether a kernel, in any order of its parts and lanes, has the results of another one."""
        sizes = dict(zip(symbols_of(new) if self.sizes else (), self.sizes, strict=True))
        arrays = arguments(new, sizes, 1)
        expected = self.expected(kernel, arrays, sizes)
        return all(computes(new, expected, arrays, sizes, seed) for seed in range(4))


@attrs.frozen
class JoiningCase(Case):
    """Two kernels that are not joined: the second one reads the first result of the first one.
    `kept` are the results of the first one that others read; of its statements, those after the
    first `statements` are removed, since the parser requires that all results are written."""

    kept: tuple[int, ...] = ()
    statements: int | None = None
    sizes: tuple[int, ...] = ()

    @property
    def title(self) -> str:
        return f"joined: {self.name}"

    def kernel(self) -> Any:
        first, second = parsed_all(self.source)
        return attrs.evolve(first, body=first.body[: self.statements]), second

    def apply(self, kernel: Any) -> Kernel:
        first, second = kernel
        x, *values = [Var(param.name, param.struct_info) for param in first.params]
        last = tuple([Var(param.name, param.struct_info) for param in second.params[1:]])
        uses = KernelUse(first, (x,), tuple(values), {}), KernelUse(second, (values[0],), last, {})
        new = joined(*uses, {values[number] for number in self.kept}, "joined")
        assert len(new.results) == new.kernel.result_count
        return new.kernel

    def expected(self, kernel: Any, arrays: Arrays, sizes: dict[Any, int]) -> Arrays:
        first, second = kernel
        x, *results = arrays
        between = run(first, [x, *map(np.zeros_like, arguments(first, {}, 0)[1:])], sizes)
        return run(second, [between[0], *results], sizes)


def computes(
    kernel: Kernel, expected: Arrays, arrays: Arrays, sizes: dict[Any, int], seed: int
) -> bool:
    """Whether a kernel runs, and has these results."""
    try:
        results = run(kernel, arrays, sizes, Random(seed))
    except (KeyError, DiagnosticError):  # it reads a variable that has no value yet
        return False
    return all(map(np.array_equal, results, expected))


def symbols_of(kernel: Kernel) -> list[Any]:
    """Returns the symbolic sizes of a kernel, in order."""
    info: Any = kernel.params[0].struct_info
    return [dims.as_sym(dim) for dim in info.dims]
