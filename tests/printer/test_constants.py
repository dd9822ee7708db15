"""Inline and referenced constants keep every bit in a round trip."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import structir
from structir.errors import DiagnosticError, ParseError
from structir.ir import BlockBuilder, Constant, IRModule, Var
from structir.script import R

DTYPES = ["float16", "float32", "float64", "int8", "int64", "uint8", "uint64", "bool"]


def module_of(*arrays: np.ndarray) -> IRModule:
    builder = BlockBuilder()
    with builder.function("main", []):
        values = [builder.emit(Constant(array), "c") for array in arrays]
        builder.emit_func_output(R.tuple(*values))
    return builder.get()


def arrays() -> st.SearchStrategy[np.ndarray]:
    shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
    return st.sampled_from(DTYPES).flatmap(lambda dtype: hnp.arrays(dtype, shapes))


@given(arrays())
def test_every_array_reads_back_bit_by_bit(array: np.ndarray) -> None:
    module = module_of(array)
    again = structir.parse(module.script())
    data = again["main"].bindings()[0].value.data
    assert (data.dtype, data.shape) == (array.dtype, array.shape)
    assert data.tobytes() == array.tobytes()


@pytest.mark.parametrize("bits", [0x7E00, 0xFE00, 0x7E01, 0x8000])
def test_every_nan_and_zero_keeps_its_bits(bits: int) -> None:
    array = np.asarray(bits, "uint16").view("float16")
    module = module_of(array)  # holds the constants of its text
    (binding,) = structir.parse(module.script())["main"].bindings()
    assert binding.value.data.view("uint16") == bits


def test_a_number_is_written_shortly() -> None:
    text = module_of(np.float32(0.1), np.asarray(float("-inf")), np.asarray([True, False])).script()
    assert 'R.const(0.1, "float32")' in text
    assert 'R.const(float("-inf"), "float64")' in text
    assert 'R.const([True, False], "bool")' in text


def test_bare_numbers_have_the_usual_dtypes() -> None:
    names = [R.const(value).struct_info.dtype for value in (1, 1.5, True, np.float64(1))]
    assert names == ["int64", "float32", "bool", "float32"]


def test_equal_contents_have_one_name() -> None:
    first, second = np.arange(100), np.arange(100)
    lines = [line for line in module_of(first, second).script().splitlines() if "metadata" in line]
    assert len(lines) == 2
    assert lines[0].partition("=")[2] == lines[1].partition("=")[2]


def test_a_missing_constant_is_an_error() -> None:
    with pytest.raises(ParseError, match="missing constant"):
        structir.parse('@R.function\ndef main():\n    return metadata["float32_100_0"]\n')


def test_save_and_load(tmp_path: Path) -> None:
    large = np.linspace(0, 1, 60, dtype="float32").reshape(3, 20)
    module = module_of(
        large,
        large.astype(ml_dtypes.bfloat16),
        large.astype(ml_dtypes.float8_e4m3fn),
        large.T,
        np.zeros((0, 3)),
        np.float32(2),
    )
    path = tmp_path / "m.sir"
    structir.save(module, path)
    expected = module.script()
    del module, large
    again = structir.load(path)
    assert again.script() == expected
    assert structir.structural_equal(structir.parse(again.script()), again)


def test_a_large_constant_is_an_operand(tmp_path: Path) -> None:
    builder = BlockBuilder()
    x = Var("x", R.Tensor((3, 20), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(R.add(x, R.const(np.ones((3, 20)), "float32"))))
    module = builder.get()
    structir.save(module, tmp_path / "m.sir")
    assert structir.structural_equal(structir.load(tmp_path / "m.sir"), module)


LACKING = [  # numbers that a dtype does not have, as literals
    ("1.5", "int32"),
    ("[1, 2.5]", "int8"),
    ("None", "float32"),
    ("'1'", "int32"),
    ("9", "int4"),
    ("[0, -3]", "int2"),
    ("16", "uint4"),
    ("-1", "uint8"),
    ("1e3 + 0.5", "uint64"),
]


@pytest.mark.parametrize(("value", "dtype"), LACKING)
def test_numbers_that_a_dtype_does_not_have_are_rejected(value: str, dtype: str) -> None:
    message = f"R.const: expected numbers of dtype {dtype}, found"
    with pytest.raises(DiagnosticError, match=message):
        structir.parse(f'@R.function\ndef main():\n    return R.const({value}, "{dtype}")\n')
    with pytest.raises(DiagnosticError, match=message):
        R.const(eval(value), dtype)


def test_numbers_in_any_form_of_their_dtype() -> None:
    forms = [R.const(2.0, "int4"), R.const([2**64 - 1], np.uint64), R.const(np.float64(2), "int8")]
    assert [str(form) for form in forms] == [
        'R.const(2, "int4")',
        'R.const([18446744073709551615], "uint64")',
        'R.const(2, "int8")',
    ]
    assert R.const(np.array([2.5]), "int32").data.tolist() == [2]  # an array is converted
