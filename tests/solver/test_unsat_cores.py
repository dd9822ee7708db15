"""Unsatisfiable cores: they name the statements that conflict, whatever else the program does."""

from __future__ import annotations

import pytest

import structir
from structir.errors import StructInfoError

REJECTING = {  # calls that need 4 axes
    "conv2d": 'R.nn.conv2d(v, R.zeros((8, 3, 3, 3), "float32"))',
    "pool": "R.nn.max_pool2d(v, pool_size=(2, 2))",
    "resize": "R.image.resize2d(v, (4, 4))",
}
CAST = 'R.match_cast(v, R.Tensor((2, 3), "float32"))'


def program(unrelated: int, *statements: str) -> str:
    lines = [
        '@R.function\ndef main(x0: R.Tensor(("a", "a"), "float32"), v: R.Tensor(dtype="float32")):'
    ]
    for k in range(unrelated):
        lines.append(f"    y{k} = R.matmul(x{k}, x{k})")
        lines.append(f"    x{k + 1} = R.add(y{k}, R.ones((1,), 'float32'))")
    lines += [f"    {statement}" for statement in statements]
    return "\n".join([*lines, "    return v"])


@pytest.mark.parametrize("unrelated", [0, 1, 40, 200])
@pytest.mark.parametrize("call", REJECTING.values(), ids=REJECTING)
@pytest.mark.parametrize("cast_first", [True, False])
def test_rejected_operands_name_the_two_statements(
    call: str, unrelated: int, cast_first: bool
) -> None:
    statements = [f"q = {CAST}", f"z = {call}"]
    if not cast_first:
        statements.reverse()
    with pytest.raises(StructInfoError, match="conflicting shapes") as caught:
        structir.infer(structir.parse(program(unrelated, *statements)))
    explanation = caught.value.explanation  # type: ignore[attr-defined]
    assert explanation.minimal
    assert {origin.label for origin in explanation.culprits} == {"annot:q", "z"}
    for statement in statements:  # each resolves the conflict, as the message says
        structir.infer(structir.parse(program(unrelated, statement)))
