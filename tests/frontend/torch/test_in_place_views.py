"""Ops that change the shape of a tensor in place, and assertions on data, compared with torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed: pip install structir[torch]")

import structir  # noqa: E402
from structir.errors import DiagnosticError, ShapeMismatchError  # noqa: E402
from structir.frontend.torch import from_exported_program  # noqa: E402
from tests.frontend.torch.make_stored import flat  # noqa: E402
from tests.frontend.torch.test_with_torch import agree, exported  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
STEPS: dict[str, Any] = {
    "t": lambda x: x.t_() if x.ndim <= 2 else x,
    "transpose": lambda x: x.transpose_(0, -1),
    "swapaxes": lambda x: x.swapaxes_(-1, 0),
    "swapdims": lambda x: x.swapdims_(-1, 0),
    "unsqueeze": lambda x: x.unsqueeze_(0),
    "unsqueeze last": lambda x: x.unsqueeze_(-1),
    "squeeze": lambda x: x.squeeze_(),
    "squeeze one": lambda x: x.squeeze_(0),
    "add": lambda x: x.add_(1),
    "resize as": lambda x: x.resize_as_(x.new_ones(2, 3)) if x.is_contiguous() else x,
    "shrink": lambda x: x.resize_(1, 2) if x.is_contiguous() and x.numel() >= 2 else x,
}
SHAPES = [(), (1,), (3,), (0,), (3, 2), (1, 4), (2, 0), (2, 3, 4), (1, 3, 1)]
DTYPES = [torch.float32, torch.int32, torch.float16, torch.bool]


@given(
    st.sampled_from(SHAPES),
    st.sampled_from(DTYPES),
    st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4),
)
@settings(max_examples=25, deadline=None)
def test_tensors_change_their_shape_in_place(shape: Any, dtype: Any, names: list[str]) -> None:
    """Views from before see the writes through the tensor, and the tensor those through views."""
    x = (torch.randn(shape) * 3).to(dtype)
    grows = x.numel() < 6 and "resize as" in names

    def act(x: Any) -> Any:
        y = x.clone()
        before = y.reshape(-1)
        for name in names:
            if (name, dtype) != ("add", torch.bool):
                y = STEPS[name](y)
        if grows:
            return y.shape  # elements beyond the first ones are not initialized
        if dtype != torch.bool and before.numel():
            before[0].mul_(2)
        return y, before, y + y

    program = exported(act, (x,))
    if grows:
        return
    result = structir.interpret(from_exported_program(program), "main", x.numpy())
    agree(result, flat(act(x)))


def test_a_new_tensor_grows_to_the_shape_of_another() -> None:
    def act(x: Any) -> Any:
        return x.new().resize_as_(x).copy_(x) + 1

    x = torch.randn(3, 2)
    result = structir.interpret(from_exported_program(exported(act, (x,))), "main", x.numpy())
    agree(result, flat(act(x)))


def test_a_view_does_not_grow() -> None:
    program = exported(lambda x: x.clone()[:1].resize_(2, 3) + 1, (torch.ones(3, 2),))
    with pytest.raises(DiagnosticError, match=r"a view cannot grow(.|\n)*x\.clone\(\)"):
        from_exported_program(program)


ASSERTIONS: dict[str, Any] = {
    "condition": lambda x: torch._assert_async(x.min() > 0),
    "message": lambda x: torch._assert_async(x.min() > 0, "not positive"),
    "number": lambda x: torch._assert_async((x > 0).all().float()),
    "integer": lambda x: torch._assert_async((x > 0).all().long()),
    "element": lambda x: torch._assert_async((x > 0).all().reshape(1, 1)),
    "read number": lambda x: torch._check(x.min().item() > 0),
    "read integer": lambda x: torch._check(x.min().ceil().long().item() > 0),
}


@pytest.mark.parametrize("name", ASSERTIONS)
def test_assertions_on_data_are_required(name: str) -> None:
    def act(x: Any) -> Any:
        ASSERTIONS[name](x)
        return x.log()

    module = from_exported_program(exported(act, (torch.ones(3),)))
    compiled = structir.compile(module)["main"]
    runs = [compiled, lambda x: structir.interpret(module, "main", x)]
    good, bad = np.array([1, 2.5, 3], "float32"), np.array([1, -2.5, 3], "float32")
    with pytest.raises(RuntimeError):
        act(torch.from_numpy(bad))
    for run in runs:
        agree(run(good), flat(act(torch.from_numpy(good))))
        with pytest.raises(ShapeMismatchError):
            run(bad)
