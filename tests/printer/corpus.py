"""Programs of the conformance set as source for the parser."""

import functools
import json
import warnings
from pathlib import Path

import structir
from structir.errors import DiagnosticError
from structir.ir import IRModule

FOLDER = Path(__file__).parents[1] / "conformance"


@functools.cache
def modules() -> dict[str, IRModule]:
    """Returns every valid program by the name of its case."""
    found = {}
    for filename in ("function_deduction.jsonl", "op_struct_info.jsonl"):
        for line in (FOLDER / filename).read_text().splitlines():
            case = json.loads(line)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    found[case["id"]] = structir.parse(case["script"])
                except DiagnosticError:
                    continue
    return found
