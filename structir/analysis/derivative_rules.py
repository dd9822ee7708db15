"""Derivatives that functions of a module declare: attributes that name other functions.

`R.func_attr({"pullback": "f_pullback"})` of a function `f(x, y) -> z` names the function
`f_pullback(x, y, cotangent) -> (x_cotangent, y_cotangent)`. It has a cotangent for each
floating-point tensor of the result, and returns one for each floating-point parameter.

`R.func_attr({"tangent": "f_tangent"})` names `f_tangent(x, y, x_tangent, y_tangent) -> (z,
z_tangent)`. It has a tangent for each floating-point parameter, and returns one for each
floating-point tensor of the result after all results.

Both parameters and results are tensors: the result is one tensor, or a tuple of tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from structir.analysis.donation import DONATED, INITIAL_STATE, STATE

PULLBACK, TANGENT = "pullback", "tangent"
RULES = (PULLBACK, TANGENT)


def rule_names(function: Any) -> list[str]:
    """Returns the names of the functions that a function declares as its derivatives."""
    attributes: Mapping[str, Any] = getattr(function, "attrs", None) or {}
    return [str(attributes[rule]) for rule in RULES if rule in attributes]


def attribute_names(function: Any) -> list[str]:
    """Returns the names of all functions that the attributes of a function name: its derivatives,
    and the function of its initial state."""
    attributes: Mapping[str, Any] = getattr(function, "attrs", None) or {}
    initial = [str(attributes[INITIAL_STATE])] if INITIAL_STATE in attributes else []
    return rule_names(function) + initial


def without_rules(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the attributes of a function without those that name derivatives."""
    return {name: value for name, value in attributes.items() if name not in RULES}


def derived_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the attributes that a derivative or batched form of a function keeps: those that do
    not refer to the results of the function or name its derivatives."""
    dropped = (DONATED, STATE, INITIAL_STATE)
    return {n: value for n, value in without_rules(attributes).items() if n not in dropped}
