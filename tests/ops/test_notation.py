"""Parsing of index signatures, and expansion of axis packs and lists."""

import pytest

from structir.opdef.desugar import desugar, expand_lists
from structir.opdef.index_expr import (
    AttributeRef,
    ElementRef,
    IndexExtent,
    IndexOp,
    IndexVar,
    IntLiteral,
    plain_variable,
)
from structir.opdef.notation import (
    REQUIRED,
    NotationError,
    pack_index_vars,
    parse_index_signature,
)


def entry(text, attributes=()):
    """Returns the first axis of the first operand."""
    return (
        parse_index_signature(f"x[{text}], ids[n] -> y[n]", "", "", frozenset(attributes))
        .operands[0]
        .entries[0]
    )


def variable_of(entry):
    return plain_variable(entry.index, entry.size)


def test_matmul_signature_is_parsed():
    signature = parse_index_signature(
        "lhs[~b, i, k], rhs[~b, k, j] -> out[~b, i, j] @ out_dtype or T"
    )
    lhs, rhs = signature.operands
    assert [e.pack for e in lhs.entries] == ["b", None, None]
    assert lhs.entries[0].loose
    assert [variable_of(e) for e in rhs.entries] == [None, "k", "j"]
    assert signature.results[0].dtypes == ("out_dtype", "T")
    assert lhs.text == "lhs[~b, i, k]"


@pytest.mark.parametrize(
    ("text", "index", "size"),
    [
        ("i", IndexVar("i"), IndexExtent("i")),
        ("3", None, IntLiteral(3)),
        ("0 : q", IntLiteral(0), IndexExtent("q")),
        ("ids : q", ElementRef("ids"), IndexExtent("q")),
        ("ids[j] : q", ElementRef("ids", (IndexVar("j"),)), IndexExtent("q")),
        ("size(i) - i : i", IndexOp("sub", (IndexExtent("i"), IndexVar("i"))), IndexExtent("i")),
        ("_", None, None),
    ],
)
def test_axis_has_index_and_size(text, index, size):
    axis = entry(text)
    assert (axis.index, axis.size) == (index, size)


def test_whole_and_broadcasting_axes_are_marked():
    assert entry("[i]").whole
    assert entry("~i : i").loose
    assert not entry("i").whole


def test_attribute_names_are_attribute_references():
    axis = entry("s * i + p[1] : n", {"s", "p"})
    assert axis.index == IndexOp(
        "add", (IndexOp("mul", (AttributeRef("s"), IndexVar("i"))), AttributeRef("p", (1,)))
    )


def test_conditional_expressions_are_selects():
    assert entry("(n - i if i < n else i) : i").index == IndexOp(
        "select",
        (
            IndexOp("lt", (IndexVar("i"), IndexVar("n"))),
            IndexOp("sub", (IndexVar("n"), IndexVar("i"))),
            IndexVar("i"),
        ),
    )


def test_defaults_dtypes_and_scalars():
    signature = parse_index_signature("x[], bias[n] @ T2 or 0 -> y[n] @ int64")
    assert signature.operands[0].entries == ()
    assert signature.operands[0].default is REQUIRED
    assert (signature.operands[1].default, signature.operands[1].dtypes) == (0, ("T2",))


def test_side_conditions_compare_extents_or_indices():
    signature = parse_index_signature(
        "x[i] -> y[j]", where="j == 2*i, i <= j", on="j <= i and i < 3"
    )
    assert [r.op for r in signature.where] == ["eq", "le"]
    assert signature.where[0].left == IndexExtent("j")
    assert [r.left for r in signature.on] == [IndexVar("j"), IndexVar("i")]


def test_axis_packs_expand_to_index_variables():
    signature = parse_index_signature("x[n, *s] -> y[n, flat(*s)]")
    x, y = signature.operands[0], signature.results[0]
    assert [variable_of(e) for e in desugar(x, {"s": 2}) or ()] == ["n", *pack_index_vars("s", 2)]
    group = (desugar(y, {"s": 2}) or ())[1]
    assert str(group.size) == "(s_0 * s_1)"
    assert str(group.index) == "((s_0 * s_1) + s_1)"
    assert desugar(x, {"s": None}) is None


def test_flattened_index_over_no_axes_has_one_element():
    signature = parse_index_signature("x[*s] -> y[flat(*s)]")
    (group,) = desugar(signature.results[0], {"s": 0}) or ()
    assert (group.index, group.size) == (IntLiteral(0), IntLiteral(1))


def test_broadcasting_operand_of_lower_rank_has_the_last_axes():
    signature = parse_index_signature("x[~s], y[~s] -> z[~s]")
    assert [variable_of(e) for e in desugar(signature.operands[0], {"s": 3}, 1) or ()] == ["s_2"]


def test_list_operands_expand_to_one_access_per_member():
    signature = expand_lists(
        parse_index_signature("*xs[*p, i, *t] -> out[*p, join(*i), *t]"), {"xs": 3}
    )
    assert [a.name for a in signature.operands] == ["xs_0", "xs_1", "xs_2"]
    assert [a.shown for a in signature.operands] == ["xs[0]", "xs[1]", "xs[2]"]
    assert [variable_of(a.entries[1]) for a in signature.operands] == ["i_0", "i_1", "i_2"]
    assert signature.results[0].entries[1].join == ("i_0", "i_1", "i_2")


def test_conditions_on_joined_variables_are_copied_per_member():
    signature = expand_lists(
        parse_index_signature("*xs[i] -> out[join(*u), i]", "u == 1"), {"xs": 2}
    )
    assert [str(r.left) for r in signature.where] == ["u_0", "u_1"]


@pytest.mark.parametrize(
    "text",
    ["x[i]", "x[i -> y[i]", "x -> y[i]", "x[i.a] -> y[i]", "x[f(i)] -> y[i]", "x['i'] -> y[i]"],
)
def test_invalid_signatures_are_rejected(text):
    with pytest.raises(NotationError):
        parse_index_signature(text)
