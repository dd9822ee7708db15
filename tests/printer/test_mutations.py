"""Mutated programs are parsed or rejected with a message, never with a traceback."""

import ast
import copy
import json
import warnings
from random import Random
from typing import Any

import structir
from structir.errors import DiagnosticError
from tests.cases import every_case
from tests.printer.corpus import FOLDER

LINES = (FOLDER / "function_deduction.jsonl").read_text().splitlines()
TREES = [ast.parse(json.loads(line)["script"]) for line in LINES]


def places(tree: ast.AST) -> list[tuple[list[Any], int]]:
    """Returns every element of a list in the tree: arguments, sizes, statements."""
    lists = (value for node in ast.walk(tree) for _, value in ast.iter_fields(node))
    return [(v, i) for v in lists if isinstance(v, list) for i, x in enumerate(v) if is_part(x)]


def is_part(node: Any) -> bool:
    return isinstance(node, ast.expr | ast.stmt)


def mutated(rng: Random) -> str:
    tree, other = copy.deepcopy(rng.choice(TREES)), copy.deepcopy(rng.choice(TREES))
    siblings, index = rng.choice(places(tree))
    kind = ast.stmt if isinstance(siblings[index], ast.stmt) else ast.expr
    donors = [v[i] for v, i in places(other) if isinstance(v[i], kind)]
    action = rng.randrange(3)
    if action == 0 and donors:
        siblings[index] = rng.choice(donors)
    elif action == 1 and donors:
        siblings.insert(index, rng.choice(donors))
    elif len(siblings) > 1:
        del siblings[index]
    return ast.unparse(ast.fix_missing_locations(tree))


@every_case("seed", range(200))
def test_a_mutated_program(seed: int) -> None:
    text = mutated(Random(seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            module = structir.parse(text)
        except DiagnosticError as error:
            assert all(d.span is not None for d in error.diagnostics), str(error)
            return
        again = structir.parse(module.script())
    assert structir.structural_equal(again, module)
