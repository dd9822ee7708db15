"""The StructInfo facts of the conformance set: every plain case is answered, but for those listed
with a reason."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import score

HERE = Path(__file__).parent

# Where our answer differs from the recorded one on purpose; the reason stands beside.
EXPECTED_MISSES: dict[str, set[str]] = {
    "struct_info_relations.jsonl": {
        "rel-base_check-029",  # a run-time check can tell (Object,) from (Tensor,): L1
        "rel-base_check-232",  # rank 2 for rank 0 is never, whatever the dtype: L0
        "rel-base_check-477",  # (k, 4) and (n, 4) of two callables are one up to renaming: PASS
        "rel-static_type-050",  # an opaque callable keeps the static type of its result
        "rel-erase_to_well_defined-077",  # n - n + 3 is 3: no variable is left to erase
        "rel-erase_to_well_defined-079",  # the same
    },
    "function_deduction.jsonl": set(),
    "op_struct_info.jsonl": {
        "op-relax.arange-004",  # arange(10, 2, -3) has three elements, not four
        "op-relax.median-011",  # keepdims keeps the rank, known or not
        "op-relax.cumprod-006",  # without axis the result has one axis, as that of cumsum
        "op-relax.shape_to_tensor-004",  # no size is -1
        "op-relax.meshgrid-007",  # indexing="xy" swaps the first two axes, as TVM's kernel does
        "op-relax.reshape-052",  # (0, 3) as (3, 0): a size that has turned out 0 is meant as it is
    },
}

# The quirk cases, where a careful implementation may differ from the oracle: what we answer, and
# why that is right. "better" is the answer recorded as better, "refused" an error, "as the oracle"
# its own answer; all else is the StructInfo of the result.
BROADCAST = "a size joined with one that is not 1 is that size, or the call fails"
UNKNOWN_RANK = "an unknown rank may be the right one; the result keeps what does not depend on it"
UNKNOWN_DTYPE = "an unknown dtype may be the right one; two known ones would be compared"
BARE_SIZE = "one size is a shape of one axis, as NumPy has it"
INFERRED = "-1 is found when the program runs; the rank is known now"
QUIRKS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        (
            "op-relax.multiply-005",
            "op-relax.floor_mod-005",
            "op-relax.maximum-005",
            "op-relax.less-005",
            "op-relax.greater-002",
            "op-relax.greater_equal-005",
            "op-relax.logical_or-001",
            "op-relax.logical_xor-005",
            "op-relax.add-033",
            "op-relax.add-039",
            "op-relax.greater-014",
            "op-relax.greater-015",
            "op-relax.add-041",
            "op-relax.greater-016",
            "op-relax.add-043",
        ),
        ("better", BROADCAST),
    ),
    "op-relax.zeros-010": ("better", "the sizes of the shape variable are known"),
    "op-relax.ones-010": ("better", "the sizes of the shape variable are known"),
    "op-relax.ewise_fma-006": (
        'R.Tensor((n,), dtype="float32")',
        "n and m may be equal: the call is checked when it runs",
    ),
    "op-relax.reshape-004": ('R.Tensor((24,), dtype="float32")', BARE_SIZE),
    "op-relax.reshape-005": ('R.Tensor((24,), dtype="float32")', BARE_SIZE),
    "op-relax.reshape-033": ('R.Tensor(dtype="float32", ndim=2)', INFERRED),
    "op-relax.reshape-034": ('R.Tensor(dtype="float32", ndim=1)', INFERRED),
    "op-relax.reshape-035": ('R.Tensor(dtype="float32", ndim=2)', INFERRED),
    "op-relax.reshape-041": (
        "as the oracle",
        "(n, 4) and (n, 5) hold as many elements where n is 0: the call is checked when it runs",
    ),
    "op-relax.stack-007": ('R.Tensor(dtype="float32")', UNKNOWN_RANK),
    "op-relax.gather_nd-010": ("R.Tensor(())", "two places name one element of a matrix"),
    "op-relax.collapse_sum_to-008": ("refused", "a sum has no more axes than what is summed"),
    "op-relax.meshgrid-005": (
        'R.Tuple(R.Tensor(dtype="float32", ndim=2), R.Tensor(dtype="float32", ndim=2))',
        "each of two operands has one axis, so each result has two",
    ),
    "op-relax.index_put-001": (
        'R.Tensor((n, m), dtype="float32")',
        "fewer indices than axes put whole rows, as NumPy has it",
    ),
    "op-relax.tensor_to_shape-004": ("refused", "sizes are no fractions"),
    "op-relax.cumsum-012": ("refused", "there is no axis 2 among two"),
    "op-relax.outer-009": ("refused", "no dtype is promoted to another in silence"),
    "op-relax.nn.rms_norm-007": ("R.Tensor((n, 4))", UNKNOWN_DTYPE),
    "op-relax.nn.instance_norm-007": ("R.Tensor((n, 8, 4))", UNKNOWN_DTYPE),
    "op-relax.nn.attention-006": ('R.Tensor(dtype="float32", ndim=4)', UNKNOWN_RANK),
    "op-relax.nn.attention-015": ("refused", "8 heads of queries meet 4 of keys"),
    "op-relax.nn.pad-005": (
        'R.Tensor(dtype="float32", ndim=2)',
        "four numbers pad two axes, so the operand has two",
    ),
    "op-relax.nn.pixel_shuffle-007": ('R.Tensor(dtype="float32")', UNKNOWN_RANK),
    "op-relax.quantize-006": ('R.Tensor(dtype="int8")', UNKNOWN_RANK),
    "op-relax.dequantize-009": ("refused", "what is dequantised is whole numbers"),
    "op-relax.nn.attention_var_len-002": (
        "as the oracle",
        "the op takes a batch axis of its own, of size 1: three axes are provably wrong",
    ),
}


def misses(filename: str) -> dict[str, str]:
    found: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for line in (HERE / filename).read_text().splitlines():
            case = json.loads(line)
            if case.get("quirk"):
                continue
            judge = score.score_relation if "kind" in case else score.score_program
            verdict = judge(case)
            if verdict.startswith("wrong"):
                found[case["id"]] = verdict
    return found


@pytest.mark.parametrize("filename", sorted(EXPECTED_MISSES))
def test_plain_cases(filename: str) -> None:
    found = misses(filename)
    unexpected = {k: v for k, v in found.items() if k not in EXPECTED_MISSES[filename]}
    assert not unexpected, "\n".join(f"{k}: {v}" for k, v in unexpected.items())
    assert EXPECTED_MISSES[filename] <= found.keys(), (
        "a listed case is answered now: take it off the list"
    )


def cases(filename: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (HERE / filename).read_text().splitlines()]


@pytest.mark.filterwarnings("ignore")
def test_quirk_cases() -> None:
    quirks = {case["id"]: case for case in cases("op_struct_info.jsonl") if case.get("quirk")}
    assert quirks.keys() == QUIRKS.keys()
    wrong = [i for i, case in quirks.items() if not answers(case, QUIRKS[i][0])]
    assert wrong == []


def answers(case: dict[str, Any], stated: str) -> bool:
    """Whether our answer to a case is the stated one."""
    if stated in ("better", "as the oracle"):
        verdict = score.score_program(case)
        return verdict == {"better": "sharper"}.get(stated, "exact")
    found = score.run_program(case)
    if found is None or stated == "refused":
        return found is None and stated == "refused"
    return found["main:ret"] == stated
