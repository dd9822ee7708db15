"""Ops whose argument is a symbolic number, and factorizations of many rows."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install structir[torch]")

import structir  # noqa: E402
from structir.frontend.torch import from_exported_program  # noqa: E402
from tests.frontend.torch.test_with_torch import agree, exported, flat  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
COUNTS = {
    "limited": lambda x: torch.topk(x, min(x.shape[1], 5), 1),
    "half": lambda x: torch.topk(x, x.shape[1] // 2, -1, largest=False),
    "all": lambda x: torch.topk(x, x.shape[0], 0),
    "none": lambda x: torch.topk(x, 0),
}


@pytest.mark.parametrize("name", COUNTS)
def test_topk_of_a_symbolic_count(name: str) -> None:
    act = COUNTS[name]
    module = from_exported_program(exported(act, (torch.randn(3, 8),), dynamic=True))
    run = structir.compile(module)["main"]
    for sizes in ((3, 8), (2, 2), (1, 5), (4, 1)):
        x = torch.randn(sizes)
        agree(structir.interpret(module, "main", x.numpy()), flat(act(x)))
        agree(run(x.numpy()), flat(act(x)))


def factored(x: Any, y: Any) -> Any:
    factors, pivots = torch.linalg.lu_factor(x)
    return *torch.lu_unpack(factors, pivots), torch.linalg.lu_solve(factors, pivots, y)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_lu_of_many_rows(dynamic: bool) -> None:
    x, y = torch.randn(2, 150, 150, dtype=torch.float64), torch.randn(2, 150, 3).double()
    module = from_exported_program(exported(factored, (x, y), dynamic))
    agree(structir.compile(module)["main"](x.numpy(), y.numpy()), flat(factored(x, y)), 1e-6)
