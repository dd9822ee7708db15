"""Ops of torchvision at symbolic sizes, interpreted and compiled, compared with torchvision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install structir[torch]")
ops = pytest.importorskip("torchvision.ops", reason="torchvision is not installed")

import structir  # noqa: E402
from structir.errors import StructIRError  # noqa: E402
from structir.frontend.torch import from_exported_program  # noqa: E402
from tests.frontend.torch.make_stored import flat  # noqa: E402
from tests.frontend.torch.test_with_torch import agree, exported  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
torch.manual_seed(0)


def corners(count: int, extent: float = 1.0) -> Any:
    boxes = torch.rand(count, 4) * extent
    return torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], 1)


def whole_corners(count: int) -> Any:
    """Returns boxes with many equal overlaps."""
    boxes = torch.randint(0, 6, (count, 4)).float()
    return torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:] + 1], 1)


def regions(count: int, images: int, extent: float) -> Any:
    boxes = torch.cat([corners(count - 2, extent), whole_corners(2) * 3 - 3]) - 0.5
    return torch.cat([torch.randint(0, images, (count, 1)).float(), boxes], 1)


def image_and_regions(batch: int, channels: int, width: int, count: int) -> tuple[Any, Any]:
    return torch.randn(batch, channels, 9, width), regions(count, batch, 9)


IMAGES = [image_and_regions(*sizes) for sizes in ((2, 3, 10, 7), (3, 2, 5, 4), (1, 2, 7, 3))]
LARGE = [(torch.randn(2, 3, 29, 30), regions(25, 2, 29))]
Case = tuple[Callable[..., Any], list[tuple[Any, ...]]]


def suppression(threshold: float) -> Case:
    counts = (7, 4, 20, 60)
    operands = [(whole_corners(n), torch.randint(0, 5, (n,)).float()) for n in counts]
    return lambda boxes, scores: ops.nms(boxes, scores, threshold), operands


def deformed(groups: int, offset_groups: int, masked: bool) -> Case:
    weight, bias = torch.randn(6, 4 // groups, 3, 3), torch.randn(6)

    def operands(batch: int, height: int, width: int) -> tuple[Any, ...]:
        sizes = (height - 1) // 2 + 1, (width - 1) // 2 + 1
        offset = torch.randn(batch, offset_groups * 18, *sizes) * 2
        x, mask = torch.randn(batch, 4, height, width), torch.rand(batch, offset_groups * 9, *sizes)
        return (x, offset, mask) if masked else (x, offset)

    def act(x: Any, offset: Any, mask: Any = None) -> Any:
        return ops.deform_conv2d(x, offset, weight, bias, stride=2, padding=1, mask=mask)

    return act, [operands(2, 9, 8), operands(3, 6, 7)]


CASES: dict[str, Case] = {
    **{f"nms {t}": suppression(t) for t in (0.3, 0.5, 0.6, 1 / 3)},
    "nms of infinite scores": (
        lambda boxes, scores: ops.nms(boxes, scores, 0.9),
        [(corners(3), torch.tensor([-torch.inf, 1.0, torch.inf]))],
    ),
    "batched_nms": (
        lambda boxes, scores, labels: ops.batched_nms(boxes, scores, labels, 0.5),
        [(corners(n), torch.rand(n), torch.randint(0, 3, (n,))) for n in (7, 20)],
    ),
    **{
        f"roi_align {ratio} {aligned}": (
            lambda x, r, n=ratio, a=aligned: ops.roi_align(x, r, (3, 2), 0.5, n, a),
            IMAGES,
        )
        for ratio, aligned in ((-1, False), (0, True), (2, True))
    },
    **{
        f"roi_pool {scale}": (lambda x, r, s=scale: ops.roi_pool(x, r, (3, 7), s), IMAGES + LARGE)
        for scale in (0.5, 1.0, 0.3)
    },
    "ps_roi_align": (
        lambda x, r: ops.ps_roi_align(x, r, (2, 3), 0.5, 2),
        [image_and_regions(b, 12, w, n) for b, w, n in ((2, 10, 7), (3, 5, 4))],
    ),
    **{f"deform_conv2d {a}": deformed(*a) for a in ((1, 1, True), (2, 2, False), (1, 2, True))},
}


@pytest.mark.parametrize("name", CASES)
def test_torchvision_ops(name: str) -> None:
    act, examples = CASES[name]
    module = from_exported_program(exported(act, examples[0], dynamic=True))
    compiled = structir.compile(module)["main"]
    for operands in examples:
        arrays: list[Any] = [np.asarray(o) for o in operands]
        expected = flat(act(*operands))
        agree(structir.interpret(module, "main", *arrays), expected)
        agree(compiled(*arrays), expected)


def test_the_indices_of_roi_pool_are_an_error() -> None:
    def act(x: Any, rois: Any) -> Any:
        return torch.ops.torchvision.roi_pool(x, rois, 1.0, 2, 2)

    with pytest.raises(StructIRError, match="no result"):
        from_exported_program(exported(act, IMAGES[0]))
