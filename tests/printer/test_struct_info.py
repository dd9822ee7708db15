"""Printing and parsing of StructInfos, registered subclasses included."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given

import structir
from structir.errors import DiagnosticError, ParseError
from structir.ir import ShapeStructInfo, StructInfo, TensorStructInfo, Var, struct_info
from structir.ir.dims import Dim, as_dim
from structir.ir.struct_info import KINDS
from structir.printer.syntax import INFO_FORMS, SyntaxForm
from tests.analysis.infos import DTYPE_VARS, INFOS, K, M, N

SYMBOLS = {"n": N, "m": M, "k": K, **{str(var): var for var in DTYPE_VARS}}


@given(INFOS)
def test_text_reads_back(info: StructInfo) -> None:
    assert structir.parse_struct_info(str(info), dict(SYMBOLS)) == info


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("R.Tensor", "R.Tensor"),
        ("R.Tensor()", "R.Tensor"),
        ('R.Tensor("float32")', 'R.Tensor(dtype="float32")'),
        ("R.Tensor(ndim=2)", "R.Tensor(ndim=2)"),
        ("R.Tensor((n, 4), 'float32')", 'R.Tensor((n, 4), dtype="float32")'),
        ('R.Tensor([n], dtype="int8", ndim=1)', 'R.Tensor((n,), dtype="int8")'),
        ('R.Tensor((), "bool")', 'R.Tensor((), dtype="bool")'),
        ('R.Tensor(("n", "2 * n + 1"))', "R.Tensor((n, 2 * n + 1))"),
        ("R.Tensor((n - n + 3,))", "R.Tensor((3,))"),
        ("R.Shape([])", "R.Shape([])"),
        ("R.Shape", "R.Shape"),
        ("R.Shape(ndim=2)", "R.Shape(ndim=2)"),
        ("R.Shape([n // 2, n % 3])", "R.Shape([n // 2, n % 3])"),
        ("R.Shape([T.max(n, 4)])", "R.Shape([T.max(n, 4)])"),
        ('R.Prim("bool")', 'R.Prim("bool")'),
        ("R.Prim(value=n)", 'R.Prim("int64", value=n)'),
        ("R.Tuple()", "R.Tuple()"),
        ("R.Tuple([R.Object, R.Shape])", "R.Tuple(R.Object, R.Shape)"),
        ("R.Callable", "R.Callable"),
        ("R.Callable(ret=R.Shape)", "R.Callable(ret=R.Shape)"),
        ("R.Callable((), R.Object)", "R.Callable((), R.Object)"),
        ("R.Callable(None, R.Shape, True)", "R.Callable(ret=R.Shape, purity=True)"),
        (
            "R.Callable((R.Object,), R.Shape, purity=False)",
            "R.Callable((R.Object,), R.Shape, purity=False)",
        ),
    ],
)
def test_forms(text: str, printed: str) -> None:
    assert str(structir.parse_struct_info(text)) == printed


@pytest.mark.parametrize("form", INFO_FORMS, ids=lambda form: form.name)
@pytest.mark.parametrize("where", ["{0}", "R.Tuple({0})", "R.Callable(({0},), {0})"])
def test_a_bare_name_is_the_struct_info_without_fields(form: SyntaxForm, where: str) -> None:
    bare, called = (where.format(f"R.{form.name}{call}") for call in ("", "()"))
    info = structir.parse_struct_info(called)
    assert structir.parse_struct_info(bare) == info
    structir.parse(f"@R.function\ndef main(x: {bare}):\n    return x\n")


def test_a_registered_kind_without_its_fields_is_one_error() -> None:
    @struct_info
    class StripedStructInfo(StructInfo):
        """A matrix of equal rows."""

        rows: Dim
        dtype: str | None = None

    assert StripedStructInfo.__doc__
    try:
        for text in ("R.Striped", "R.Striped()", "R.Tuple(R.Striped)"):
            with pytest.raises(ParseError, match=r"expected R\.Striped\(rows=\.\.\.\), found"):
                structir.parse_struct_info(text)
    finally:
        del KINDS["Striped"]


def declared_kind(name: str, *bases: type) -> Any:
    return struct_info(type(name, bases, {"__module__": __name__}))


@pytest.mark.parametrize(
    ("name", "base", "message"),
    [
        ("TensorStructInfo", StructInfo, r"the name of the built-in R\.Tensor"),
        ("WideStructInfo", TensorStructInfo, "as base class, found TensorStructInfo"),
        ("PlainStructInfo", object, "expected a subclass of StructInfo"),
    ],
)
def test_an_invalid_subclass_is_rejected(name: str, base: type, message: str) -> None:
    with pytest.raises(DiagnosticError, match=message) as caught:
        declared_kind(name, base)
    assert caught.value.code == "E1134" and KINDS["Tensor"] is TensorStructInfo


@struct_info
class TaggedStructInfo(StructInfo):
    """A value with a size and a tag."""

    rows: Dim
    tag: Any = None


del KINDS["Tagged"]


def test_values_of_fields_are_those_that_source_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "Tagged", TaggedStructInfo)
    for tag in (1, -0.5, True, "a'b\n", (1, ("x",)), np.float32(1.5), [1, [2]], float("inf")):
        info = TaggedStructInfo("2 * n", tag)
        again = structir.parse_struct_info(str(info), {"n": structir.SymVar("n")})
        assert hash(info) and str(again) == str(info) and again.tag == info.tag
    for tag in ({}, float("nan"), 1j, np.zeros(2), print, TensorStructInfo(), b"x"):
        with pytest.raises(DiagnosticError, match="the field tag: expected") as caught:
            TaggedStructInfo(3, tag)
        assert caught.value.code == "E1134"
    with pytest.raises(ParseError, match="the field tag"):
        structir.parse_struct_info("R.Tagged(3, tag={})")


def test_symbols_are_shared_and_extended() -> None:
    symbols: dict[str, object] = {"n": structir.SymVar("n")}
    first = structir.parse_struct_info("R.Shape([n, m])", symbols)
    second = structir.parse_struct_info("R.Shape([m, n])", symbols)
    assert isinstance(first, ShapeStructInfo) and isinstance(second, ShapeStructInfo)
    assert first.values == second.values[::-1]
    assert first.values[0] == symbols["n"] and first.values[1] == symbols["m"]


def test_a_shape_variable_is_a_name_in_place_of_sizes() -> None:
    symbols: dict[str, object] = {}
    info = structir.parse_struct_info('R.Tensor(s, dtype="float32", ndim=2)', symbols)
    assert isinstance(info, TensorStructInfo) and info.dims is symbols["s"]
    assert isinstance(symbols["s"], Var)
    assert str(info) == 'R.Tensor(s, dtype="float32", ndim=2)'


@pytest.mark.parametrize(
    "text",
    [
        "R.Tenser",
        "R.Tensor((n,), 'float31')",
        "R.Tensor((n,), ndim=2)",
        "R.Tensor((n / 2,))",
        "R.Tensor((2.5,))",
        "R.Tensor((n,), color=1)",
        "R.Tensor((n,), 'float32', 1, 2)",
        "R.Shape(3)",
        "R.Prim()[0]",
        "R.Tuple(",
        "3",
        "n + 1",
        "",
        "R.Tuple(" * 100 + ")" * 100,
    ],
)
def test_an_invalid_struct_info_is_rejected(text: str) -> None:
    with pytest.raises(ParseError):
        structir.parse_struct_info(text)


def test_a_registered_kind_is_written_by_its_fields() -> None:
    @struct_info
    class BandedStructInfo(StructInfo):
        """A matrix with few diagonals."""

        rows: Dim
        inner: StructInfo
        offsets: tuple[int, ...] = ()
        dtype: str | None = None

    try:
        symbols = {"n": structir.SymVar("n")}
        inner = TensorStructInfo((3,), "float32")
        info = BandedStructInfo(as_dim(symbols["n"]) + 1, inner, (-1, 0, 1))  # type: ignore[call-arg]
        text = 'R.Banded(rows=n + 1, inner=R.Tensor((3,), dtype="float32"), offsets=(-1, 0, 1))'
        assert str(info) == text
        assert structir.parse_struct_info(text, dict(symbols)) == info
        module = structir.parse(
            f"@R.function\ndef main(x: {text.replace('n + 1', repr('n + 1'))}):\n    return x\n"
        )
        assert structir.structural_equal(structir.parse(module.script()), module)
    finally:
        del KINDS["Banded"]
