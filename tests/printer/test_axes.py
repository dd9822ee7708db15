"""Row variables, ragged axes, labels and anonymous sizes: parsed, printed and rejected."""

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

import structir
from structir.errors import DiagnosticError, DiagnosticWarning
from structir.ir.axes import Labelled, Ragged, RowVar
from structir.script import R

PROGRAMS = {
    "rows": """
@R.function
def main(
    x: R.Tensor(("*batch", "n", 64), "float32"),
    w: R.Tensor((64, "2 * m"), "float32"),
    b: R.Tensor(("m",), "float32"),
) -> R.Tensor(("*batch", "n", "2 * m"), "float32"):
    m = T.int64()
    h: R.Tensor((*batch, n, 2 * m), "float32") = R.matmul(x, w)
    y: R.Tensor(("*batch", n, "_"), "float32") = R.exp(h)
    z = R.match_cast(x, R.Tensor((*t, "_", 64), "float32"))
    return y
""",
    "several rows": """
@R.function
def main(x: R.Tensor(("*s", 3, "*t")), y: R.Tensor(("*t", "*s")), s: R.Tensor(("*s",))):
    return x
""",
    "ragged": """
@R.function
def main(x: R.Tensor((10, "*", 3)), y: R.Tensor((10, "*:len")), z: R.Tensor((5, "*:len"))):
    return y
""",
    "labels": """
@R.function
def main(x: R.Tensor(("b", "3:rgb"), "uint8"), y: R.Tensor(("*s", "n:wide", "2 * n:deep"))):
    return x
""",
    "anonymous": """
@R.function
def main(x: R.Tensor(("_", "_", 3)), y: R.Tensor(ndim=2), z: R.Tensor) -> R.Tensor(("_", 4)):
    return z
""",
    "in callables": """
@R.function
def main(f: R.Callable((R.Tensor(("*s", "n")),), R.Tensor(("n", "*s"))), x: R.Tensor((2, 3, 4))):
    n = T.int64()
    return f(x)
""",
    "facts": """
@R.function
def main(x: R.Tensor(("n", "k"))):
    R.require("n % 4 == 0", "2 <= k <= 8", n >= 0, "k != 3")
    return x
""",
}


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiagnosticWarning)
        yield


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=list(PROGRAMS))
def test_texts_come_back(text: str) -> None:
    module = structir.parse(text)
    again = structir.parse(module.script())
    assert structir.structural_equal(again, module)
    assert structir.structural_hash(again) == structir.structural_hash(module)
    assert again.script() == module.script()
    structir.analysis.check_well_formed(module)


@given(
    st.sampled_from(["n", "k", "n + k", "n - k", "n % 64", "T.min(n, k)"]),
    st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
    st.integers(5, 9),
)
def test_conditions_are_printed_as_they_are_written(side: str, sign: str, number: int) -> None:
    written = f'R.require("{side} {sign} {number}")'
    parameters = 'x: R.Tensor(("n", "k"))'
    text = f"@R.function\ndef main({parameters}):\n    {written}\n    return x\n"
    assert written in structir.parse(text).script()


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=list(PROGRAMS))
def test_modules_are_saved_to_files(text: str, tmp_path) -> None:
    module = structir.parse(text)
    structir.save(module, tmp_path / "m.sir")
    assert structir.structural_equal(structir.load(tmp_path / "m.sir"), module)


def info(text: str, symbols=None):
    return structir.parse_struct_info(text, symbols)


def test_classes_of_axes() -> None:
    shape = info('R.Tensor(("*s", "n", "3:rgb", "*:len", "_"))')
    row, size, labelled, ragged, anything = shape.axes
    assert isinstance(row, RowVar)
    assert row.name == "s"
    assert labelled == Labelled(3, "rgb")
    assert ragged == Ragged("len")
    assert shape.ndim is None
    assert shape.dims is None
    assert anything != size


def test_labels_leave_sizes_as_they_are() -> None:
    shape = info('R.Tensor(("n", "3:rgb"))')
    assert shape.ndim == 2
    assert shape.dims[1] == 3


def test_ragged_axes_count() -> None:
    assert info('R.Tensor((10, "*", 3))').ndim == 3


def test_a_single_star_is_a_ragged_axis() -> None:
    assert info('R.Tensor(("*",))').axes == (Ragged(),)


def test_bare_and_quoted_rows_are_the_same() -> None:
    symbols: dict = {}
    assert info('R.Tensor(("*s", "n"))', symbols) == info("R.Tensor((*s, n))", symbols)


def test_anonymous_sizes_differ() -> None:
    one, other = info('R.Tensor(("_", "_"))').dims
    assert one != other


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ('("*s", "n")', '("*t", "m")', True),
        ('("*s", "*t")', '("*s", "*s")', False),
        ('("*s", 3)', '(3, "*s")', False),
        ('("n", "3:rgb")', '("n", "3:hsv")', False),
        ('("n", "3:rgb")', '("n", 3)', False),
        ('(2, "*:a")', '(2, "*:b")', False),
        ('(2, "*")', '(2, "*")', True),
    ],
)
def test_equality_is_up_to_the_names_of_rows(one: str, other: str, equal: bool) -> None:
    first, second = info(f"R.Tensor({one})"), info(f"R.Tensor({other})")
    assert structir.structural_equal(first, second) is equal
    if equal:
        assert structir.structural_hash(first) == structir.structural_hash(second)


def test_two_rows_of_one_name_are_printed_differently() -> None:
    shape = structir.ir.TensorStructInfo(axes=(RowVar("s"), RowVar("s")), ndim=None)
    assert str(shape) == 'R.Tensor(("*s", "*s_1"))'


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ('"3:"', "expected a label"),
        ('"n:4"', "expected a label"),
        ('"**s"', "expected a size"),
        ('"*s:len"', "expected a size"),
        ('"n +"', "expected a size"),
    ],
)
def test_wrong_axes_are_pointed_at(written: str, message: str) -> None:
    with pytest.raises(DiagnosticError, match=message) as found:
        structir.parse(f"@R.function\ndef main(x: R.Tensor(({written}, 2))):\n    return x\n")
    assert found.value.diagnostics[0].span is not None


def test_shapes_as_values_have_no_rows() -> None:
    with pytest.raises(DiagnosticError, match="expected a size"):
        structir.parse('@R.function\ndef main(x: R.Shape(["*s", 2])):\n    return x\n')


def test_a_rank_that_the_axes_contradict() -> None:
    with pytest.raises(DiagnosticError, match="ndim"):
        info('R.Tensor(("*", 3), ndim=3)')


def test_an_unbound_row_is_reported() -> None:
    module = structir.parse(
        "@R.function\ndef main(x: R.Tensor):\n"
        '    y: R.Tensor((*t, 3)) = R.call_pure_packed("f", x)\n    return y\n'
    )
    with pytest.raises(DiagnosticError, match=r"mentions \*t, which is not bound"):
        structir.analysis.check_well_formed(module)


@pytest.mark.parametrize(
    ("fact", "message"),
    [
        ('"n >"', "expected a comparison of sizes"),
        ('"n + 1"', "expected a comparison of sizes"),
        ("4", "expected a comparison of sizes"),
        ('"3 == 4"', "the condition is always false: 3 == 4"),
        ('"q >= 2"', "`q` is not defined"),
    ],
)
def test_wrong_facts_are_pointed_at(fact: str, message: str) -> None:
    with pytest.raises(DiagnosticError, match=message) as found:
        structir.parse(
            f'@R.function\ndef main(x: R.Tensor(("n",))):\n    R.require({fact})\n    return x\n'
        )
    assert found.value.diagnostics[0].span is not None


class TestSignaturesThatPythonEvaluates:
    def test_strings(self) -> None:
        @R.function
        def main(x: R.Tensor(("*s", "m", 4), "float32"), y: R.Tensor(("_", "3:rgb"))):
            h: R.Tensor((*s, m, 4), "float32") = R.exp(x)
            return h

        assert str(main.params[0].struct_info) == 'R.Tensor(("*s", m, 4), dtype="float32")'
        assert main.ret_struct_info == main.params[0].struct_info

    def test_real_objects(self) -> None:
        s = R.row("s")
        m, k = R.dims("m k")

        @R.function
        def main(x: R.Tensor((*s, m, k), "float32"), y: R.Tensor((k + 1,))):
            return R.exp(x)

        text = '@R.function\ndef main(x: R.Tensor(("*s", "m", "k"), "float32"), ' + (
            'y: R.Tensor(("k + 1",))):\n    return R.exp(x)\n'
        )
        assert structir.structural_equal(main, structir.parse(text)["main"])

    def test_a_struct_info_by_itself(self) -> None:
        s = R.row("s")
        assert str(R.Tensor((*s, "n", "*"))) == 'R.Tensor(("*s", n, "*"))'
