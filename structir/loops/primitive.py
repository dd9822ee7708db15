"""Declares primitives: functions from kernel to kernel, with their names, parameters and examples.

The first parameter of a primitive is the kernel. Parameters annotated as `For`, `Scratch` and
`Local` are given by name: a loop by its variable, a local array, an assigned scalar.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import attrs

from structir.ir.kernel import Kernel
from structir.loops.loop_tree import LoopTree, derived, loop_tree, prepared
from structir.loops.refusal import ScheduleError, refusal

_LOOKUPS: dict[str, Callable[[LoopTree, str], Any]] = {
    "For": LoopTree.loop,
    "Scratch": LoopTree.array,
    "Local": LoopTree.scalar,
}
_PLAIN = {"int": int, "str": str, "bool": bool}


@attrs.frozen(eq=False)
class Example:
    """A kernel, as the parameters and the body of an `@I.kernel`, and the arguments of a call."""

    parameters: str
    body: str
    arguments: tuple[Any, ...]
    keywords: dict[str, Any] = attrs.field(factory=dict)
    notice: str = ""  # what to see in the result


@attrs.frozen(eq=False)
class Primitive:
    """A checked change of a kernel. A call returns the changed kernel or raises ScheduleError.

    `rounds` is whether results may change by rounding; a call with `exact=True` is refused then.
    """

    name: str
    apply: Callable[..., Kernel]
    example: Example
    rounds: bool
    parameters: dict[str, inspect.Parameter]

    @property
    def summary(self) -> str:
        """The first paragraph of the documentation."""
        return inspect.getdoc(self.apply) or ""

    def __call__(self, kernel: Kernel, *args: Any, exact: bool = False, **keywords: Any) -> Kernel:
        try:
            if not isinstance(kernel, Kernel) or kernel.blocks is not None:
                found = "a kernel of a GPU" if isinstance(kernel, Kernel) else type(kernel).__name__
                help = "use the handle of a kernel: `structir.schedule(module).kernel(name)`"
                raise refusal("E1115", f"expected a kernel of the CPU, found {found}", help=help)
            kernel = prepared(kernel)
            if exact and self.rounds:
                message = "expected a primitive that keeps every bit, found one that may round"
                raise refusal("E1119", message, help="remove `exact=True`, or this primitive")
            bound = self._bound(args, keywords)
            arguments = [self._value(kernel, name, value) for name, value in bound.items()]
            return derived(self.apply(kernel, *arguments), kernel)
        except ScheduleError as error:
            diagnostic = error.diagnostics[0]
            if diagnostic.op is not None:
                raise
            named = attrs.evolve(diagnostic, op=self.name)
            raise ScheduleError(named) from None

    def _bound(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
        """Returns the arguments by parameter, with defaults."""
        names = list(self.parameters)
        usage = f"`{self.name}({', '.join(map(str, self.parameters.values()))})`"
        unknown = [name for name in keywords if name not in names[len(args) :]]
        if len(args) > len(names) or unknown:
            found = f"`{unknown[0]}`" if unknown else f"{len(args)} arguments"
            message = f"expected {usage}, found {found}"
            raise refusal("E1115", message, help=f"write {usage}")
        values = dict(zip(names, args, strict=False)) | keywords
        for name, parameter in self.parameters.items():
            if name not in values and parameter.default is parameter.empty:
                message = f"expected {usage}, found no `{name}`"
                raise refusal("E1115", message, help=f"add the argument `{name}`")
            values.setdefault(name, parameter.default)
        return {name: values[name] for name in names}

    def _value(self, kernel: Kernel, name: str, value: Any) -> Any:
        """Returns an argument; a node is looked up by its name."""
        annotation = str(self.parameters[name].annotation)
        lookup = _LOOKUPS.get(annotation)
        if lookup is not None and isinstance(value, str):
            return lookup(loop_tree(kernel), value)
        expected = _PLAIN.get(annotation, str if lookup is not None else object)
        if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
            message = f"{name}: expected {expected.__name__}, found {value!r}"
            raise refusal("E1115", message, help=f"pass {expected.__name__} as `{name}`")
        return value


def primitive(
    *, example: Example, rounds: bool = False
) -> Callable[[Callable[..., Kernel]], Primitive]:
    """Declares a primitive, which is named as its function and as its file."""

    def declare(function: Callable[..., Kernel]) -> Primitive:
        parameters = {
            name: parameter.replace(annotation=_annotation(parameter))
            for name, parameter in list(inspect.signature(function).parameters.items())[1:]
        }
        return Primitive(function.__name__, function, example, rounds, parameters)

    return declare


def _annotation(parameter: inspect.Parameter) -> str:
    annotation: Any = parameter.annotation
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "object")
