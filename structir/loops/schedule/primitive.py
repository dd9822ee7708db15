"""Primitives: legality-checked functions from kernel to kernel, declared by a decorator."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, overload

import attrs

from structir.errors import Diagnostic
from structir.ir.kernel import Kernel
from structir.loops.schedule.loop_tree import derive, prepared
from structir.loops.schedule.refusal import ScheduleError, refusal


@attrs.frozen(eq=False)
class Example:
    """A documented use of a primitive: the source of a kernel, and the arguments."""

    source: str
    args: tuple[Any, ...]
    options: dict[str, Any]


@attrs.frozen(eq=False)
class Primitive:
    """A transformation of kernels that preserves their results, or raises ScheduleError.

    `changes_rounding` marks primitives that may change the last bits of floats; `exact_option` is
    the name of an option with which they keep all bits.
    """

    name: str
    transform: Callable[..., Kernel]
    changes_rounding: bool = False
    exact_option: str = ""
    examples: list[Example] = attrs.Factory(list)

    def __call__(self, kernel: Kernel, *args: Any, exact: bool = False, **options: Any) -> Kernel:
        """Returns the transformed kernel; `exact` refuses primitives that change rounding."""
        if not isinstance(kernel, Kernel):
            message = f"expected a kernel, found {type(kernel).__name__}"
            help = 'pass an `@I.kernel` function, or use `structir.schedule(module).kernel("y")`'
            raise ScheduleError(Diagnostic(message, None, self.name, hint=help, code="E1115"))
        try:
            bound = inspect.signature(self.transform).bind(kernel, *args, **options)
        except TypeError as error:
            message = f"{error}; the parameters are {self.parameter_text()}"
            diagnostic = Diagnostic(message, kernel.span, self.name, code="E1115")
            help = f"write `{self.name}{self.parameter_text()}`"
            raise ScheduleError(diagnostic.hinted(help)) from None
        try:
            if exact and self.changes_rounding and not bound.arguments.get(self.exact_option):
                raise refusal(
                    "E1118",
                    "expected a primitive that keeps every bit, found one that changes rounding",
                    kernel,
                    help=self._exact_use() or "omit `exact=True`, or this primitive",
                )
            if kernel.blocks is not None:
                raise refusal(
                    "E1116",
                    "expected a kernel of the CPU, found one of GPU threads",
                    kernel,
                    help="schedule the kernel without `target`",
                )
            before = prepared(kernel)
            return derive(self.transform(before, *args, **options), before)
        except ScheduleError as error:
            named = [attrs.evolve(d, op=d.op or self.name) for d in error.diagnostics]
            raise ScheduleError(named) from None

    def _exact_use(self) -> str:
        return f"pass `{self.exact_option}=True`" if self.exact_option else ""

    def parameter_names(self) -> list[str]:
        """Returns the names of the parameters after the kernel."""
        return list(inspect.signature(self.transform).parameters)[1:]

    def parameter_text(self) -> str:
        """Returns the parameters after the kernel, in parentheses."""
        signature = inspect.signature(self.transform)
        parameters = list(signature.parameters.values())[1:]
        plain = [p.replace(annotation=p.empty) for p in parameters]
        return str(signature.replace(parameters=plain, return_annotation=signature.empty))

    def example(self, source: str, *args: Any, **options: Any) -> None:
        """Adds an example to the documentation: a kernel, and the arguments of this primitive."""
        self.examples.append(Example(source, args, options))

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return inspect.getdoc(self.transform) or ""


@overload
def primitive(transform: Callable[..., Kernel]) -> Primitive: ...
@overload
def primitive(
    *, changes_rounding: bool, exact_option: str = ""
) -> Callable[[Callable[..., Kernel]], Primitive]: ...
def primitive(
    transform: Any = None, *, changes_rounding: bool = False, exact_option: str = ""
) -> Any:
    """Declares a primitive from a function from kernel to kernel.

    Its other parameters are names of loops and arrays, and numbers.
    """
    if transform is None:
        return lambda function: Primitive(
            function.__name__, function, changes_rounding, exact_option
        )
    return Primitive(transform.__name__, transform)


def positive(number: Any, name: str) -> None:
    """Raises ScheduleError unless a parameter is a positive integer."""
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise refusal(
            "E1115",
            f"{name}: expected a positive integer, found {number!r}",
            help=f"pass a number of iterations, such as `{name}=8`",
        )
