"""The StructInfo facts of the conformance set: every plain case is answered, but for those listed
with a reason."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

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
        "op-relax.eye-009",  # a size read from an R.Prim variable has no name yet
    },
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
