"""In-place ops by their other names, and ranges that include their end."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install structir[torch]")

import structir  # noqa: E402
from structir.frontend.torch import from_exported_program  # noqa: E402
from tests.frontend.torch.make_stored import flat  # noqa: E402
from tests.frontend.torch.test_with_torch import agree, exported  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
UNARY = "absolute arccos arccosh arcsin arcsinh arctan arctanh negative fix"
BINARY = (
    "arctan2 divide true_divide greater greater_equal less less_equal multiply not_equal subtract"
)
ACTS: dict[str, Any] = {
    f"{name}_": lambda x, y, name=name: getattr(x.clone(), f"{name}_")() for name in UNARY.split()
}
ACTS |= {
    f"{name}_": lambda x, y, name=name: getattr(x.clone(), f"{name}_")(y) for name in BINARY.split()
}
ACTS |= {
    "range": lambda x, y: torch.range(0, 5) + x.sum(),
    "steps": lambda x, y: torch.range(1, 8, 2) * x.sum(),
    "fractions": lambda x, y: torch.range(0.5, 2, 0.25) + x.sum(),
    "downwards": lambda x, y: torch.range(3, -3, -1.5) + x.sum(),
}


@pytest.mark.parametrize("name", ACTS)
def test_op_by_another_name(name: str) -> None:
    x = torch.rand(3, 4) * 0.8 + (1 if name == "arccosh_" else 0.1)
    y = torch.rand(3, 4) + 0.5
    program = exported(ACTS[name], (x, y))
    result = structir.interpret(from_exported_program(program), "main", x.numpy(), y.numpy())
    agree(result, flat(ACTS[name](x, y)))
