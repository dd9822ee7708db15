"""GroupQueryAttention, compared with ONNX Runtime on prompts, on later tokens and on batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.test_microsoft import agree, floats, single

pytestmark = pytest.mark.sampled(1)

HEADS, GROUPS, WIDTH = 4, 2, 16


def call(
    past: int,
    length: int,
    lengths: list[int],
    packed: bool = False,
    rotary: bool = False,
    extra: dict[int, Any] | None = None,
    symbolic: bool = True,
    **attributes: Any,
) -> None:
    """Compares one call: `past` cached positions, `length` new tokens, and the keys per item."""
    batch, total = len(lengths), max(lengths)
    query = floats(batch, length, HEADS * WIDTH)
    key, value = (floats(batch, length, GROUPS * WIDTH) for _ in range(2))
    operands: list[Any] = [query, key, value]
    if packed:
        operands = [np.concatenate(operands, axis=2), None, None]
    cache = [floats(batch, GROUPS, past, WIDTH) if past else None for _ in range(2)]
    operands += [*cache, np.array(lengths, "int32") - 1, np.array(total, "int32")]
    angles = floats(16, WIDTH // 2)
    operands += [np.cos(angles), np.sin(angles)] if rotary else [None, None]
    operands += [None] * 3
    for index, operand in (extra or {}).items():
        operands[index] = operand
    while operands[-1] is None:
        operands.pop()
    attributes |= {"num_heads": HEADS, "kv_num_heads": GROUPS, "do_rotary": int(rotary)}
    fixed = (6, 7, 8) if rotary else (6,)
    if not symbolic:
        fixed = tuple(k for k in (7, 8) if rotary)
    agree(*single("GroupQueryAttention", operands, 3, fixed=fixed, symbolic=symbolic, **attributes))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("rotary", [False, True])
def test_prompt(packed: bool, rotary: bool) -> None:
    call(0, 5, [5, 5], packed, rotary)


@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("lengths", [[7, 7], [7, 4]])
def test_next_token(rotary: bool, lengths: list[int]) -> None:
    call(6, 1, lengths, True, rotary)


def test_later_tokens() -> None:
    call(6, 3, [9], False, True)


def test_total_length_at_run_time() -> None:
    call(6, 1, [7, 7], symbolic=False)


def test_cache_of_fixed_capacity() -> None:
    call(12, 1, [7, 5], symbolic=False)


OPTIONS = {
    "window": {"local_window_size": 3},
    "cap": {"softcap": 5.0},
    "scale": {"scale": 0.7},
    "smooth": {"smooth_softmax": 1},
    "pairs": {"rotary_interleaved": 1, "rotary": True},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("past", [0, 6])
def test_options(options: dict[str, Any], past: int) -> None:
    length = 1 if past else 7
    call(past, length, [7, 7], **options)


def test_bias_and_sink() -> None:
    call(6, 1, [7], extra={10: floats(1, HEADS, 1, 7)})
    call(0, 5, [5], extra={11: floats(HEADS)})


def test_positions() -> None:
    places = np.array([[3, 4, 5, 6]], "int64")
    call(0, 4, [4], False, True, extra={9: places})
