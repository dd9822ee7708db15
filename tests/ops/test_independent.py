"""Every reference against stored results of PyTorch and ONNX Runtime.

`tests/data/independent.py` computes them and records the versions.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from structir.errors import DiagnosticError
from structir.ir import TensorStructInfo
from tests.cases import every_case
from tests.ops.built_in import BUILT_IN_OPS
from tests.ops.calls import called

OPS = {name: op.definition for name, op in BUILT_IN_OPS.items()}
with np.load(Path(__file__).parents[1] / "data" / "independent.npz") as archive:
    ARRAYS = dict(archive)
SAID = json.loads(str(ARRAYS.pop("said")))
CASES = [
    pytest.param(case, id=f"{case['op']}-{case['by']}-{k}") for k, case in enumerate(SAID["cases"])
]
# Ops without an equivalent in the installed libraries, and their substitutes.
WITHOUT_COUNTERPART = {
    "tropical": "no library has it; see test_einsum_notation.py and test_ocannl_documents.py",
    "astype_like": "astype at the dtype of a tensor; see interpret/test_dtype_variables.py",
    "constant_like": "a number of a program; see interpret/test_dtype_variables.py",
    "vision.get_valid_counts": "only in MXNet; see test_valid_boxes_move_to_the_front",
    "nn.class_indices": "torch checks labels in its losses; see test_class_indices.py",
    "linalg.eigh": "the signs of vectors are free; see test_matrix_factors.py",
    "linalg.lu": "its product is compared in test_matrix_factors.py",
    "to_vdevice": "the identity on elements; see test_vdevices.py",
    "linalg.svd": "the signs of vectors are free; see test_matrix_factors.py",
    "cbrt": "NumPy and JAX have it; see tests/numpy/test_lax.py",
    "linear_recurrence": "a sum of products in test_numerics.py",
    "ragged.contiguous_rows": "the ends of rows are compared in tests/ragged/test_ragged.py",
    "concat_rows": "rows are concatenated one by one in tests/ragged",
    **{
        f"segment_{name}": "rows are compared one by one in tests/ragged"
        for name in ("argmax", "argmin", "expand", "ids", "max", "min", "prod", "sum")
    },
}


def restored(value):
    """Decodes a stored argument or result."""
    ((kind, kept),) = value.items()
    if kind == "array":
        return ARRAYS[kept]
    if kind == "value":
        return kept
    return (list if kind == "list" else tuple)(restored(v) for v in kept)


def assert_same(result, wanted):
    if isinstance(wanted, tuple):
        assert isinstance(result, tuple) and len(result) == len(wanted)
        for one, other in zip(result, wanted, strict=True):
            assert_same(one, other)
        return
    result = np.asarray(result)
    assert result.shape == wanted.shape
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(result, wanted, rtol=2e-5, atol=2e-6)
    else:
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.filterwarnings("ignore")
@every_case("case", CASES)
def test_references_match_other_libraries(case):
    args = [restored(a) for a in case["args"]]
    keywords = {n: restored(v) for n, v in case["keywords"].items()}
    call, values = called(case["op"], *args, **keywords)
    result = call.op.definition.reference(call, values)
    wanted = restored(case["result"])
    assert_same(result, wanted)
    if isinstance(call.struct_info, TensorStructInfo) and wanted.dtype.kind == "f":
        assert result.dtype == wanted.dtype


def test_every_op_is_compared():
    compared = {case["op"] for case in SAID["cases"]}
    unclear = [name for name in OPS if (name in compared) == (name in WITHOUT_COUNTERPART)]
    assert unclear == [], (
        "add a case to tests/data/independent.py, or name what replaces one in WITHOUT_COUNTERPART"
    )


def test_valid_boxes_move_to_the_front():
    """Boxes of a class, scored above the threshold, move to the front; -1 fills up."""
    boxes = [[0, 0.9, 1, 2], [-1, 0.8, 3, 4], [1, 0.1, 5, 6], [2, 0.5, 7, 8]]
    result = called("vision.get_valid_counts", np.array([boxes], "float32"), 0.3)
    call, values = result
    count, kept, places = call.op.definition.reference(call, values)
    assert count.tolist() == [2] and places.tolist() == [[0, 3, -1, -1]]
    np.testing.assert_array_equal(kept[0, :2], np.array([boxes[0], boxes[3]], "float32"))
    assert (kept[0, 2:] == -1).all()
    with pytest.raises(DiagnosticError, match="bool"):
        called("vision.get_valid_counts", np.array([boxes], "bool"), 0.3)  # it holds no -1
