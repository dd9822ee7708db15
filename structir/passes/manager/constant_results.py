"""Finds results that are the same constant for all samples, although they depend on the inputs.

A comparison of such results does not distinguish programs. Polynomials are exempt: one that is
constant at inputs in general position is constant, as `x - x` is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from structir.analysis.variables import walk_values
from structir.ir.expr import Call, Function
from structir.ir.op import Op
from structir.passes.manager.data_dependence import data_dependence
from structir.passes.manager.perturbation import leaves
from structir.passes.manager.ring_ops import is_polynomial
from structir.passes.manager.samples import InputSample, Sampler


def constant_results(function: Function, samples: Iterable[InputSample]) -> list[str] | None:
    """Returns descriptions of the constant results; None if all that depend on inputs are."""
    accepted = [leaves(sample.expected) for sample in samples if sample.accepted]
    if len({len(each) for each in accepted}) != 1 or _is_polynomial(function):
        return []
    depends = data_dependence(function)
    dependent = [k for k, depends_on_inputs in enumerate(depends) if depends_on_inputs]
    if len(depends) != len(accepted[0]) or not dependent:
        return []
    constants = [_constant([each[k] for each in accepted]) for k in dependent]
    if all(constant is not None for constant in constants):
        return None
    return [
        f"result {number} of {len(dependent)} is {constant} for all inputs"
        for number, constant in enumerate(constants, 1)
        if constant is not None
    ]


def with_variation(
    function: Function, sampler: Sampler, samples: Sequence[InputSample]
) -> list[InputSample]:
    """Returns samples, with further ones for results that would be constant."""
    extended = list(samples)
    constant = constant_results(function, extended)
    first = next((sample for sample in extended if sample.accepted), None)
    is_varied = constant == [] or (sampler.heavy and constant is not None)
    for other in sampler.further(first.sizes) if first and not is_varied else ():
        remaining = constant_results(function, [*extended, other])
        if remaining != constant:
            extended.append(other)
        if remaining == []:
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
