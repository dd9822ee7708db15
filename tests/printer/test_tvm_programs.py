"""Programs of the kinds in TVM's tests parse, print, and compute what NumPy computes."""

import warnings

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError
from structir.interpret import register_extern
from structir.script import R
from tests.cases import every_case
from tests.printer.tvm_programs import PROGRAMS, Program


def doubled_into(x, out):
    out[...] = 2 * x


register_extern("structir.test.double", lambda x: 2 * x)
register_extern("structir.test.double_into", doubled_into)


def parsed(program: Program):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return structir.parse(program.text, constants=program.constants or None)


def leaves(value):
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def entry(module):
    return next(name for name in ("main", "foo") if name in module.functions)


@pytest.mark.parametrize("program", PROGRAMS, ids=[program.name for program in PROGRAMS])
def test_a_program_of_tvm_has_the_values_of_numpy(program, capsys):
    module = parsed(program)
    results = leaves(structir.interpret(module, entry(module), *program.args))
    expected = leaves(program.expected(*program.args))
    assert len(results) == len(expected)
    for result, value in zip(results, expected, strict=True):
        if isinstance(value, str):
            assert result == value
            continue
        np.testing.assert_allclose(result, value, rtol=1e-4, atol=1e-5)
        if isinstance(value, np.ndarray):
            assert np.asarray(result).dtype == value.dtype
            assert np.asarray(result).shape == value.shape


@every_case("program", PROGRAMS, ids=lambda program: program.name)
def test_a_program_of_tvm_prints_and_parses_back(program):
    module = parsed(program)
    back = structir.parse(module.script(), constants=program.constants or None)
    assert structir.structural_equal(back, module)


MAIN = "@R.function\ndef main(x: R.Tensor((4,), 'float32'), c: R.Tensor((), 'bool')):\n{}\n"
REJECTED = {
    "two returns": (
        MAIN.format("    if c:\n        return x\n    else:\n        return R.add(x, x)"),
        "end the function with `return y`",
    ),
    "call_tir_inplace with results in another order": (
        "@I.ir_module\nclass Module:\n    @T.prim_func\n"
        "    def f(A: T.Buffer((4,), 'float32'), B: T.Buffer((4,), 'float32')):\n"
        "        A[0] = B[0]\n        B[0] = A[0]\n    @R.function\n"
        "    def main(x: R.Tensor((4,), 'float32')):\n"
        "        y = R.call_tir_inplace(cls.f, (x, x), [1, 0], [R.Tensor((4,), 'float32')] * 2)\n"
        "        return y\n",
        "positions of operands in order",
    ),
    "print": (MAIN.format("    print(x)\n    return x"), r"help: call the op: `R.print\(...\)`"),
    "an op without its namespace": (
        MAIN.format("    return exp(x)"),
        r"`exp` is not defined(.|\n)*help: call the op: `R.exp\(...\)`",
    ),
    "an unknown function": (
        MAIN.format("    return helper(x)"),
        r"help: call a function of the module, `cls.helper\(...\)`, or an op",
    ),
    "emit_te": (
        MAIN.format("    y = R.emit_te(f, x)\n    return y"),
        "tensor expressions are Python that runs",
    ),
    "a scalar as a size": (
        "@R.function\ndef main(k: R.Prim('int64')):\n    return R.zeros((k, 2), 'float32')\n",
        r"found \(k, 2\)(.|\n)*help: as a parameter, `k: R.Prim\(\"int64\", value=\"k\"\)`",
    ),
    "a tensor as a size": (
        MAIN.format("    k = R.sum(x)\n    return R.zeros((k,), 'float32')"),
        r"found \(k,\)(.|\n)*help: write a number or a dim",
    ),
    "call_builtin": (
        MAIN.format("    y = R.call_builtin_with_ctx('vm.builtin.f', (x,))\n    return y"),
        "without the instructions of a virtual machine",
    ),
    "index maps that skew": (
        MAIN.format("    y = R.layout_transform(x, index_map=lambda i: (i, i // 2))\n    return y"),
        "each digit of axis 0 once",
    ),
    "index maps of other functions": (
        MAIN.format("    y = R.layout_transform(x, index_map=lambda i: (i * i,))\n    return y"),
        "expected a size|expected digits",
    ),
    "blocks of different sizes": (
        "@R.function\ndef main(x: R.Tensor((1, 2, 6, 6, 4), 'float32'), "
        "w: R.Tensor((1, 1, 1, 1, 8, 4), 'float32')):\n"
        "    return R.nn.conv2d(x, w, data_layout='NCHW4c', kernel_layout='OIHW8i4o')\n",
        "expected equal blocks of channels",
    ),
    "loops with effects in TIR": (
        "@T.prim_func\ndef f(A: T.Buffer((4,), 'float32')):\n    T.call_extern('int32', 'g')\n",
        "no counterpart in kernels",
    ),
}


@pytest.mark.parametrize("name", REJECTED)
def test_a_program_without_counterpart_is_rejected_with_the_reason(name):
    text, message = REJECTED[name]
    with pytest.raises(DiagnosticError, match=message):
        structir.parse(text)


def helper(x):
    return R.exp(x)


def vector(size):
    return R.Tensor((size,), "float32")


def test_a_helper_of_python_is_an_error_with_the_decorator_of_macros():
    with pytest.raises(DiagnosticError, match=r"help: `@R\.macro` above `def helper"):

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            return helper(x)


def test_a_call_in_an_annotation_is_an_error_with_the_edit():
    with pytest.raises(DiagnosticError, match=r"help: name the StructInfo .*`info = vector\(4\)`"):

        @R.function
        def main(x: vector(4)):
            return x


def test_markers_of_the_virtual_machine_have_no_effect():
    module = structir.parse(
        MAIN.format("    R.memory.kill_tensor(x)\n    R.vm.kill_object(c)\n    return R.exp(x)")
    )
    x = np.ones(4, "float32")
    result = structir.interpret(module, "main", x, np.array(True))
    np.testing.assert_allclose(result, np.exp(x))
