"""The page of all ops says what the ops declare."""

from pathlib import Path

from structir.tools.op_page import entry, page
from tests.ops.built_in import BUILT_IN_OPS

PAGE = Path(__file__).parents[2] / "docs" / "ops.md"


def test_the_page_is_what_the_ops_declare():
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_op_stands_on_the_page_with_all_its_attributes():
    text = PAGE.read_text(encoding="utf-8")
    for op in BUILT_IN_OPS.values():
        told = entry(op.definition)
        assert told in text
        for parameter in op.definition.signature.attributes:
            assert f"`{parameter.name}`: " in told
