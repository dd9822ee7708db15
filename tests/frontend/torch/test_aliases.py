"""In-place ops by their other names, and ranges that include their end."""

from __future__ import annotations

import operator
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
CONVOLUTION = [1], [1], [1], False, [0], 1, False, False, True, True
ACTS |= {
    "convolution": lambda x, y: torch.ops.aten._convolution(
        x.mT[None], y[:, :, None], None, *CONVOLUTION
    ),
    "range": lambda x, y: torch.range(0, 5) + x.sum(),
    "steps": lambda x, y: torch.range(1, 8, 2) * x.sum(),
    "fractions": lambda x, y: torch.range(0.5, 2, 0.25) + x.sum(),
    "downwards": lambda x, y: torch.range(3, -3, -1.5) + x.sum(),
}


def _updated(operator_name: str, x: Any, y: Any) -> Any:
    """Returns a tensor, and a view of it, after an update by an operator such as `&=`."""
    z = x.clone()
    part = z[:1]
    return getattr(operator, operator_name)(z, y), part


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64", "uint8"])
@pytest.mark.parametrize("name", ["iand", "ior", "ixor", "ilshift", "irshift"])
def test_operators_that_update_their_operand(name: str, dtype: str) -> None:
    if dtype == "bool" and "shift" in name:
        return  # torch has no shift of booleans
    for shape in [(3, 4), (1,), (0, 2)]:
        x = torch.randint(0, 5, shape).to(getattr(torch, dtype))
        y = torch.randint(0, 3, shape).to(x.dtype)
        program = exported(lambda x, y: _updated(name, x, y), (x, y))
        result = structir.interpret(from_exported_program(program), "main", x.numpy(), y.numpy())
        agree(result, flat(_updated(name, x, y)))


@pytest.mark.parametrize("name", ACTS)
def test_op_by_another_name(name: str) -> None:
    x = torch.rand(3, 4) * 0.8 + (1 if name == "arccosh_" else 0.1)
    y = torch.rand(3, 4) + 0.5
    program = exported(ACTS[name], (x, y))
    result = structir.interpret(from_exported_program(program), "main", x.numpy(), y.numpy())
    agree(result, flat(ACTS[name](x, y)))
