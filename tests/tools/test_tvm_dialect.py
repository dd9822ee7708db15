"""`structir print --dialect tvm` prints plain programs in the spelling of TVM."""

import warnings

import pytest
from typer.testing import CliRunner

import structir
from structir.errors import DiagnosticError
from structir.ir.kernel import Kernel
from structir.tools.cli import build
from structir.tools.tvm_dialect import tvm_text
from tests.cases import every_case
from tests.printer.tvm_programs import PROGRAMS, Program

WITHOUT_FORM = {"inplace calls"}  # and functions of TIR, which are kernels
LESS_PRECISE = {"prim values", "prim values of sizes"}  # TVM's `R.Prim` has no value


def parsed(program: Program):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return structir.parse(program.text, constants=program.constants or None)


def has_kernels(program: Program) -> bool:
    return any(isinstance(member, Kernel) for member in parsed(program).functions.values())


PLAIN = [p for p in PROGRAMS if p.name not in WITHOUT_FORM and not has_kernels(p)]


@every_case("program", PLAIN, ids=lambda program: program.name)
def test_a_plain_program_in_the_spelling_of_tvm_parses_back(program):
    module = parsed(program)
    text = tvm_text(module)
    assert text.startswith("from tvm.script import ir as I, relax as R, tirx as T\n")
    assert "sinfo_args" not in text and "R.Object" not in text and "metadata[" not in text
    back = structir.parse(text)
    if program.name not in LESS_PRECISE:
        assert structir.structural_equal(back, module)


X = "x: R.Tensor((4,), 'float32')"


def module_of(body: str, params: str = X):
    return structir.parse(
        f"@R.function(pure=False)\ndef main({params}):\n    {body}\n    return y\n"
    )


@pytest.mark.parametrize(
    ("body", "params", "source"),
    [
        ("y = R.reshape(x, (n, 2))", f"{X}, n: T.int64", "n: T.int64)"),
        ("y = R.call_packed('f', x, sinfo_args=R.Object)", X, "ty_args=R.Any)"),
        ("y = R.prim_value(1.5)", X, "R.prim_value(T.float32(1.5))"),
        ("y = R.shape_to_tensor(R.shape([1, 2]))", X, "R.shape_to_tensor(R.shape([1, 2]))"),
        ("y = R.print(x, format='x: {}')", X, 'R.print(x, format=R.str("x: {}"))'),
        ("y = R.tuple()", X, "y: R.Tuple() = R.tuple()"),
    ],
)
def test_a_form_that_differs_has_the_spelling_of_tvm(body, params, source):
    assert source in tvm_text(module_of(body, params))


@pytest.mark.parametrize(
    ("body", "params", "feature"),
    [
        ("y = R.exp(x)", "x: R.Tensor(('*s', 4), 'float32')", "row variables"),
        ("y = R.exp(x)", "x: R.Tensor(('4:rgb',), 'float32')", "labels"),
        ("y = R.roll(x, 1, axis=0)", X, "op `roll`"),
        ("R.require('n > 2')\n    y = x", "x: R.Tensor(('n',), 'float32')", "`R.require`"),
        ("y = R.sig('a -> a', function='f')(x)", X, "`R.sig`"),
    ],
)
def test_a_feature_that_tvm_lacks_is_an_error_with_its_line(body, params, feature):
    with pytest.raises(DiagnosticError, match=feature) as caught:
        tvm_text(module_of(body, params))
    assert caught.value.diagnostics[0].span is not None
    assert caught.value.diagnostics[0].hint


def test_the_command_prints_the_dialect(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(module_of("y = R.exp(x)").script(), encoding="utf-8")
    result = CliRunner().invoke(build(), ["print", str(path), "--dialect", "tvm"])
    assert result.exit_code == 0
    assert result.output.startswith("from tvm.script import")
