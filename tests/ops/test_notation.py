"""Op lines: how they are read, and what becomes of rows and lists."""

import pytest

from structir.opdef.desugar import desugar, expand_lists
from structir.opdef.index_expr import (
    AttributeRef,
    ElementRef,
    IndexExtent,
    IndexOp,
    IndexVar,
    IntLiteral,
)
from structir.opdef.notation import (
    REQUIRED,
    NotationError,
    pack_index_vars,
    parse_index_signature,
)


def entry(text, attributes=()):
    """The first entry of the first operand."""
    return (
        parse_index_signature(f"x[{text}], ids[n] -> y[n]", "", "", frozenset(attributes))
        .operands[0]
        .entries[0]
    )


def test_matmul_is_read_as_it_looks():
    line = parse_index_signature("lhs[~b, i, k], rhs[~b, k, j] -> out[~b, i, j] @ out_dtype or T")
    lhs, rhs = line.operands
    assert [e.pack for e in lhs.entries] == ["b", None, None]
    assert lhs.entries[0].loose
    assert [e.index_var for e in rhs.entries] == [None, "k", "j"]
    assert line.results[0].dtypes == ("out_dtype", "T")
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
def test_an_entry_says_index_and_size(text, index, size):
    found = entry(text)
    assert (found.index, found.size) == (index, size)


def test_whole_and_loose_entries_are_marked():
    assert entry("[i]").whole
    assert entry("~i : i").loose
    assert not entry("i").whole


def test_a_name_is_an_attribute_if_the_op_has_it():
    found = entry("s * i + p[1] : n", {"s", "p"})
    assert found.index == IndexOp(
        "add", (IndexOp("mul", (AttributeRef("s"), IndexVar("i"))), AttributeRef("p", (1,)))
    )


def test_a_choice_is_written_as_in_python():
    assert entry("(n - i if i < n else i) : i").index == IndexOp(
        "select",
        (
            IndexOp("lt", (IndexVar("i"), IndexVar("n"))),
            IndexOp("sub", (IndexVar("n"), IndexVar("i"))),
            IndexVar("i"),
        ),
    )


def test_defaults_dtypes_and_scalars():
    line = parse_index_signature("x[], bias[n] @ T2 or 0 -> y[n] @ int64")
    assert line.operands[0].entries == ()
    assert line.operands[0].default is REQUIRED
    assert (line.operands[1].default, line.operands[1].dtypes) == (0, ("T2",))


def test_side_conditions_speak_of_extents_and_of_indices():
    line = parse_index_signature("x[i] -> y[j]", where="j == 2*i, i <= j", on="j <= i and i < 3")
    assert [r.op for r in line.where] == ["eq", "le"]
    assert line.where[0].left == IndexExtent("j")
    assert [r.left for r in line.on] == [IndexVar("j"), IndexVar("i")]


def test_rows_become_letters():
    line = parse_index_signature("x[n, *s] -> y[n, flat(*s)]")
    x, y = line.operands[0], line.results[0]
    assert [e.index_var for e in desugar(x, {"s": 2}) or ()] == ["n", *pack_index_vars("s", 2)]
    group = (desugar(y, {"s": 2}) or ())[1]
    assert str(group.size) == "(s_0 * s_1)"
    assert str(group.index) == "((s_0 * s_1) + s_1)"
    assert desugar(x, {"s": None}) is None


def test_a_group_over_no_axes_has_one_element():
    line = parse_index_signature("x[*s] -> y[flat(*s)]")
    (group,) = desugar(line.results[0], {"s": 0}) or ()
    assert (group.index, group.size) == (IntLiteral(0), IntLiteral(1))


def test_a_short_loose_operand_has_the_last_letters_of_its_row():
    line = parse_index_signature("x[~s], y[~s] -> z[~s]")
    assert [e.index_var for e in desugar(line.operands[0], {"s": 3}, 1) or ()] == ["s_2"]


def test_a_list_is_written_out_with_a_letter_for_each_member():
    line = expand_lists(parse_index_signature("*xs[*p, i, *t] -> out[*p, join(*i), *t]"), {"xs": 3})
    assert [a.name for a in line.operands] == ["xs_0", "xs_1", "xs_2"]
    assert [a.shown for a in line.operands] == ["xs[0]", "xs[1]", "xs[2]"]
    assert [a.entries[1].index_var for a in line.operands] == ["i_0", "i_1", "i_2"]
    assert line.results[0].entries[1].join == ("i_0", "i_1", "i_2")


def test_a_condition_on_a_starred_letter_holds_for_each_member():
    line = expand_lists(parse_index_signature("*xs[i] -> out[join(*u), i]", "u == 1"), {"xs": 2})
    assert [str(r.left) for r in line.where] == ["u_0", "u_1"]


@pytest.mark.parametrize(
    "text",
    ["x[i]", "x[i -> y[i]", "x -> y[i]", "x[i.a] -> y[i]", "x[f(i)] -> y[i]", "x['i'] -> y[i]"],
)
def test_what_is_no_line_is_refused(text):
    with pytest.raises(NotationError):
        parse_index_signature(text)
