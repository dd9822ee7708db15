"""The page of all ops says what the ops declare."""

from pathlib import Path

from structir.ir import registered_ops
from structir.opdef.define import SignatureOpDefinition
from structir.tools.op_page import entry, page

PAGE = Path(__file__).parents[2] / "docs" / "ops.md"


def test_the_page_is_what_the_ops_declare():
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_op_stands_on_the_page_with_all_its_attributes():
    text = PAGE.read_text(encoding="utf-8")
    for op in registered_ops():
        if isinstance(
            op.definition, SignatureOpDefinition
        ) and op.definition.body.__module__.startswith("structir."):
            told = entry(op.definition)
            assert told in text
            for parameter in op.definition.signature.attributes:
                assert f"`{parameter.name}`: " in told
