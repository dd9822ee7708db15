"""Every reference against results that PyTorch and ONNX Runtime gave: stored by
`tests/data/independent.py`, which says from which versions."""

import json
from pathlib import Path

import numpy as np
import pytest

from structir import ops
from structir.errors import DiagnosticError
from structir.ir import TensorStructInfo, registered_ops
from tests.ops.calls import called

ops.load()
OPS = {
    op.name: op.definition for op in registered_ops() if hasattr(op.definition, "index_signature")
}
with np.load(Path(__file__).parents[1] / "data" / "independent.npz") as archive:
    ARRAYS = dict(archive)
SAID = json.loads(str(ARRAYS.pop("said")))
CASES = [
    pytest.param(case, id=f"{case['op']}-{case['by']}-{k}") for k, case in enumerate(SAID["cases"])
]
# Ops of which no library that is at hand has its like, and what stands in for one.
WITHOUT_COUNTERPART = {
    "vision.get_valid_counts": "an op of MXNet alone: test_boxes_that_count is worked out by hand",
}


def restored(value):
    """What a stored argument or result is."""
    ((kind, kept),) = value.items()
    if kind == "array":
        return ARRAYS[kept]
    if kind == "value":
        return kept
    return (list if kind == "list" else tuple)(restored(v) for v in kept)


def assert_same(found, wanted):
    if isinstance(wanted, tuple):
        assert isinstance(found, tuple) and len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_same(one, other)
        return
    found = np.asarray(found)
    assert found.shape == wanted.shape
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)
    else:
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore")
def test_reference_is_what_others_compute(case):
    args = [restored(a) for a in case["args"]]
    keywords = {n: restored(v) for n, v in case["keywords"].items()}
    call, values = called(case["op"], *args, **keywords)
    found = call.op.definition.reference(call, values)
    wanted = restored(case["result"])
    assert_same(found, wanted)
    if isinstance(call.struct_info, TensorStructInfo) and wanted.dtype.kind == "f":
        assert found.dtype == wanted.dtype


@pytest.mark.parametrize("name", sorted(OPS))
def test_every_op_is_compared(name):
    compared = {case["op"] for case in SAID["cases"]}
    assert (name in compared) != (name in WITHOUT_COUNTERPART), (
        "add a case to tests/data/independent.py, or say what stands in for one"
    )


def test_boxes_that_count():
    """Boxes of a class, scored above the threshold, move to the front; -1 fills up."""
    boxes = [[0, 0.9, 1, 2], [-1, 0.8, 3, 4], [1, 0.1, 5, 6], [2, 0.5, 7, 8]]
    found = called("vision.get_valid_counts", np.array([boxes], "float32"), 0.3)
    call, values = found
    count, kept, places = call.op.definition.reference(call, values)
    assert count.tolist() == [2] and places.tolist() == [[0, 3, -1, -1]]
    np.testing.assert_array_equal(kept[0, :2], np.array([boxes[0], boxes[3]], "float32"))
    assert (kept[0, 2:] == -1).all()
    with pytest.raises(DiagnosticError, match="bool"):
        called("vision.get_valid_counts", np.array([boxes], "bool"), 0.3)  # it holds no -1
