"""Samples of a function: arguments with the outcome of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs
import numpy as np

from structir.errors import StructIRError
from structir.ir.dtype import FLOATS, dtype_of
from structir.ir.module import IRModule
from structir.passes.manager.decisions import DecisionRecord
from structir.passes.manager.effects import EffectRecorder
from structir.passes.manager.input_sizes import Sizes
from structir.passes.manager.input_values import LARGE
from structir.passes.manager.perturbation import leaves
from structir.passes.manager.widening import has_narrow_floats, widened_value


@attrs.frozen(eq=False)
class InputSample:
    """The arguments of a function, and its outcome: a result or an error."""

    sizes: Sizes
    arguments: list[Any]
    expected: Any
    wide: InputSample | None = None  # the same arguments in float64; None if not to be compared
    only_wide: bool = False  # whether another sample checks the dtypes of the program
    most_steps: int = 0  # of a run of a rewritten function, which is given up then; 0: all

    @property
    def flat(self) -> list[Any]:
        """The arguments, with the fields of tuples in place of these."""
        return list(_flattened(self.arguments))

    def nested(self, flat: Iterable[Any]) -> list[Any]:
        """Returns arguments with the tuples of this sample, and the leaves of `flat`."""
        return list(_nested(tuple(self.arguments), iter(flat)))

    @property
    def accepted(self) -> bool:
        """Whether the function returns a result."""
        return not isinstance(self.expected, StructIRError)

    @property
    def elements(self) -> int:
        """The number of elements of the result that can be compared, which excludes NaN."""
        return _comparable_elements(self.expected) if self.accepted else 0

    @property
    def extent(self) -> int:
        """The number of elements of the arguments."""
        return sum(int(np.size(leaf)) for leaf in leaves(tuple(self.arguments)))

    def after(self, result: Any) -> InputSample:
        """Returns the same arguments with the result of a rewritten function."""
        return attrs.evolve(self, expected=result)

    def widened(self, large: dict[Any, Any]) -> InputSample:
        """Returns a sample that is compared in float64, too, if it has floats; `large` memoizes
        large arrays."""
        if not self.accepted or not has_narrow_floats((*self.arguments, self.expected)):
            return self
        arguments = [widened_value(argument, large) for argument in self.arguments]
        return attrs.evolve(self, wide=InputSample(self.sizes, arguments, None))


def outcome(
    module: IRModule, name: str, arguments: list[Any], decisions: DecisionRecord | None = None
) -> Any:
    """Returns the result of a function, or the error that it raises; records its decisions."""
    return outcome_of(EffectRecorder(module, decisions=decisions), name, arguments)


def outcome_of(interpreter: EffectRecorder, name: str, arguments: list[Any]) -> Any:
    """Returns the result of a function in an interpreter with its effects, or the error that it
    raises."""
    try:
        with np.errstate(all="ignore"):
            return interpreter.observed(interpreter.global_function(name)(*arguments))
    except StructIRError as error:
        return error


def _flattened(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple):
            yield from _flattened(value)
        else:
            yield value


def _nested(like: Any, flat: Iterator[Any]) -> Any:
    return tuple([_nested(each, flat) for each in like]) if isinstance(like, tuple) else next(flat)


def is_finite(sample: InputSample) -> bool:
    """Whether the arguments have no infinities and NaNs; large ones never have any."""
    return all(
        bool(np.isfinite(leaf.astype(np.float64)).all())
        for leaf in leaves(tuple(sample.arguments))
        if isinstance(leaf, np.ndarray | np.generic)
        and leaf.size <= LARGE
        and dtype_of(np.asarray(leaf)) in FLOATS
    )


def finite_share(sample: InputSample) -> float:
    """Returns the fraction of finite numbers in a result."""
    if not sample.accepted:
        return -1.0
    total = sum(np.size(leaf) for leaf in leaves(sample.expected))
    return sample.elements / total if total else 1.0


def is_varied(result: Any) -> bool:
    """Whether each array with several elements has different ones, and each float is not 0."""
    arrays = [np.asarray(leaf) for leaf in leaves(result) if isinstance(leaf, np.ndarray)]
    return all(
        array.dtype.kind in "OSU" or array.size == 0 or bool(np.any(array != array.flat[0]))
        if array.size != 1
        else array.dtype.kind in "biuOSU" or bool(np.all(array != 0))
        for array in arrays
    )


def all_have_elements(arguments: list[Any]) -> bool:
    return all(np.size(leaf) for leaf in leaves(tuple(arguments)) if isinstance(leaf, np.ndarray))


def _comparable_elements(value: Any) -> int:
    if isinstance(value, tuple):
        return sum(map(_comparable_elements, value))
    return sum(map(_comparable, leaves(value)))


def _comparable(leaf: Any) -> int:
    if not isinstance(leaf, np.ndarray | np.generic):
        return 0 if leaf is None or callable(leaf) else 1
    array = np.asarray(leaf)
    if array.dtype.kind in "biuOSU":
        return array.size
    return int(np.count_nonzero(np.isfinite(array.astype(np.float64, copy=False))))
