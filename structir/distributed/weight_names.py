"""The parameters that a plan treats as weights: placed once, and not sent at each call."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from structir.distributed.planner import Planner
from structir.distributed.work_units import Key
from structir.errors import StructIRError


def weight_keys(planner: Planner, names: Sequence[str]) -> frozenset[Key]:
    """Returns the tensors of weights: of parameters by name, and all constants."""
    keys: set[Any] = set()
    params = [param.name for param in planner.function.params]
    for name in names:
        if name not in params:
            close = difflib.get_close_matches(name, params, 1)
            hint = f"; help: did you mean `{close[0]}`?" if close else ""
            available = ", ".join(params)
            raise StructIRError(
                f"weights: expected parameters of {planner.name} ({available}), found `{name}`"
                f"{hint}",
                code="E0917",
            )
    for key in planner.inputs:
        owner: Any = key[0]  # type: ignore[index]
        if owner.name in names or owner.name in planner.constants:
            keys.add(key)
    return frozenset(keys)
