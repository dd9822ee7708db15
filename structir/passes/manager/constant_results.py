"""Finds results that are the same constant for all samples, although they depend on the inputs.

A comparison of such results does not distinguish programs. Polynomials are exempt: one that is
constant at inputs in general position is constant, as `x - x` is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import numpy as np

from structir.analysis.variables import walk_values
from structir.ir.expr import Call, Function
from structir.ir.op import Op
from structir.ir.struct_info import (
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.passes.manager.data_dependence import data_dependence
from structir.passes.manager.input_sample import InputSample
from structir.passes.manager.perturbation import leaves
from structir.passes.manager.ring_ops import is_polynomial
from structir.passes.manager.samples import Sampler


@attrs.frozen
class ConstantResults:
    """The results that are constant for all samples, and whether no other depends on inputs."""

    descriptions: tuple[str, ...] = ()
    is_all: bool = False


def constant_results(function: Function, samples: Iterable[InputSample]) -> ConstantResults:
    """Returns the results that depend on inputs but are constant for all samples."""
    accepted = [leaves(sample.expected) for sample in samples if sample.accepted]
    if len({len(each) for each in accepted}) != 1 or _is_polynomial(function):
        return ConstantResults()
    depends = data_dependence(function)
    dependent = [k for k, depends_on_inputs in enumerate(depends) if depends_on_inputs]
    if len(depends) != len(accepted[0]) or not dependent:
        return ConstantResults()
    constants = [_constant([each[k] for each in accepted]) for k in dependent]
    descriptions = [
        f"result {number} of {len(dependent)} is {constant} for all inputs"
        for number, constant in enumerate(constants, 1)
        if constant is not None
    ]
    return ConstantResults(tuple(descriptions), len(descriptions) == len(constants))


def has_no_elements(info: StructInfo | None) -> bool:
    """Whether a result has no elements at any size: tensors with an axis of size 0, and empty
    tuples and shapes."""
    if isinstance(info, TupleStructInfo):
        return all(map(has_no_elements, info.fields))
    dims = getattr(info, "dims", None)
    if isinstance(info, TensorStructInfo):
        return isinstance(dims, tuple) and 0 in dims
    return isinstance(info, ShapeStructInfo) and dims == ()


def with_variation(
    function: Function, sampler: Sampler, samples: Sequence[InputSample]
) -> list[InputSample]:
    """Returns samples, with further ones for results that would be constant."""
    extended = list(samples)
    constant = constant_results(function, extended)
    first = next((sample for sample in extended if sample.accepted), None)
    is_varied = not constant.descriptions or (sampler.heavy and not constant.is_all)
    for other in sampler.further(first.sizes) if first and not is_varied else ():
        remaining = constant_results(function, [*extended, other])
        if remaining != constant:
            extended.append(other)
        if not remaining.descriptions:
            break
        constant = remaining
    return extended


def _constant(values: Sequence[Any]) -> Any:
    """Returns the element that all arrays consist of, or None."""
    flat = [np.ravel(np.asarray(value)) for value in values if isinstance(value, np.ndarray)]
    arrays = [array for array in flat if array.size]
    if not arrays or arrays[0].dtype.kind in "OSU":
        return None
    first = arrays[0][0]
    is_nan = bool(first != first)
    for array in arrays:
        same = array != array if is_nan else array == first
        if not np.all(same):
            return None
    return first


def _is_polynomial(function: Function) -> bool:
    calls = [node for node in walk_values(function) if type(node) is Call]
    return all(type(call.op) is Op and is_polynomial(call) for call in calls)
