"""Views in another dtype, and writes through them."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install structir[torch]")

import structir  # noqa: E402
from structir.frontend.torch import from_exported_program  # noqa: E402
from tests.frontend.torch.test_with_torch import agree, exported, flat  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def written(x: Any) -> Any:
    y = x * 1.5
    y.view(torch.int32).bitwise_and_(0x7FFFFFFF)  # the magnitude
    y.view(torch.int16)[:, ::2].zero_()  # the lower half of each element
    return y


VIEWS = {
    "same size": lambda x: x.view(torch.int32),
    "larger": lambda x: x.view(torch.int64),
    "smaller": lambda x: x.view(torch.uint8),
    "bfloat16": lambda x: x.view(torch.bfloat16).float().nan_to_num(),
    "exponent": lambda x: (x.view(torch.int32) >> 23) & 0xFF,
    "written": written,
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_in_another_dtype(name: str) -> None:
    act = VIEWS[name]
    module = from_exported_program(exported(act, (torch.randn(3, 4),), dynamic=True))
    run = structir.compile(module)["main"]
    for rows, columns in ((3, 4), (1, 2), (5, 8)):
        x = torch.randn(rows, columns)
        agree(structir.interpret(module, "main", x.numpy()), flat(act(x)))
        agree(run(x.numpy()), flat(act(x)))
