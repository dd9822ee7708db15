"""The StructInfo facts of the conformance set: every plain case is answered, but for those listed with a reason."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from tests.conformance import score

HERE = Path(__file__).parent

# Where our answer is right and differs from the recorded one, or is not given yet; the reason stands beside.
EXPECTED_MISSES: dict[str, set[str]] = {
    "struct_info_relations.jsonl": set(),
    "function_deduction.jsonl": set(),
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
    assert EXPECTED_MISSES[filename] <= found.keys(), "a listed case is answered now: take it off the list"
