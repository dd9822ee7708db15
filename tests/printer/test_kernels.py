"""Kernels round-trip through source; invalid ones are rejected with a location."""

import pytest

import structir
from structir.analysis import check_well_formed
from structir.errors import DiagnosticError, ParseError, WellFormedError
from structir.ir import (
    BlockBuilder,
    Function,
    GlobalVar,
    IRModule,
    Kernel,
    TensorStructInfo,
    Var,
    VarBinding,
    structural_equal,
    structural_hash,
)
from structir.ir.node import replace
from structir.passes import CommonSubexpressionElimination, DeadCodeElimination
from structir.script import I, R, T

HEAD = '@I.kernel\ndef f(x: R.Tensor(("n", 4), "float32"), out: R.Tensor(("n",), "float32")):\n'


@I.ir_module
class Rows:
    @I.kernel
    def sums(x: R.Tensor(("n", "m"), "float32"), out: R.Tensor(("n",), "float32")):
        for i in range(n):
            total = 0.0
            for j in range(x.shape[1]):
                total += x[i, j]
            out[i] = total

    @R.function
    def main(x: R.Tensor(("n", "m"), "float32")):
        n = T.int64()
        with R.dataflow():
            y = R.call_kernel(sums, (x,), out_sinfo=R.Tensor((n,), "float32"))
            R.output(y)
        return y


def body(text: str) -> Kernel:
    lines = "".join(f"    {line}\n" for line in text.strip().splitlines())
    kernel = structir.parse(HEAD + lines).functions["f"]
    assert isinstance(kernel, Kernel)
    return kernel


BODIES = [
    "out[0] = -x[0, 1] ** 2 + (-x[0, 1]) ** 2 - (x[0, 1] - (x[0, 2] - 1))",
    "out[0] = x[0, 0] if not (x[0, 0] < 1 or x[0, 0] > 2) and n > 2 else -1e-7",
    "out[0] = (x[0, 0] if n > 2 else 1.0) + min(x[0, 0], 3, -2) * abs(x[0, 3])",
    "out[0] = T.float32(n // 3 % 2) + T.float32(1 << 3 | n & 7 ^ 2)",
    'out[0] = max(x[0, 0], float("-inf"))\nout[0] = float("nan")\nout[0] = float("inf")',
    "a = T.int8(-128)\nb = a + 1\nout[n - 1] = T.float32(~b)",
    "i = 0\nwhile i < n and x[i, 0] != 0.5:\n    i += 1\nout[0] = T.float32(i)",
    "for i in range(n - 1, -1, -1):\n    if i == 3:\n        continue\n    out[i] = T.exp(1 / 3)",
    "for i in range(2, n):\n    for j in range(4):\n        if j > i:\n            break\n"
    "        elif j == i:\n            out[i] = 1\n        else:\n            out[i] += x[i, j]",
    'row = T.zeros((2 * n, 3), "int32")\nrow[0, 0] += 1\nout[0] = T.float32(row[0, 0])',
    "if n > 3:\n    a = 1.5\nelse:\n    a = 2\nout[0] = a",
    "if n > 3:\n    pass\nelse:\n    out[0] = 1",
    "out[0] = x[0, 0] ** x[0, 1] ** 2",
    "flag = 0 <= n < 10\nout[0] = T.float32(flag)",
]


@pytest.mark.parametrize("text", BODIES)
def test_bodies_read_back(text: str) -> None:
    kernel = body(text)
    module = IRModule({"f": kernel})
    read = structir.parse(module.script())
    assert structural_equal(read, module)
    assert structural_hash(read) == structural_hash(module)
    assert read.script() == module.script()
    assert structural_equal(structir.parse(str(kernel)).functions["f"], kernel)


def test_a_module_of_functions_and_kernels_reads_back() -> None:
    check_well_formed(Rows)
    assert list(Rows.functions) == ["sums", "main"]
    read = structir.parse(Rows.script())
    assert structural_equal(read, Rows) and list(read.functions) == ["sums", "main"]
    assert "R.call_kernel(cls.sums, (x,), out_sinfo=R.Tensor((n,)" in Rows.script()


def test_kernels_are_equal_up_to_names_alone() -> None:
    text = "a = 1.0\nfor i in range(n):\n    out[i] = a"
    assert structural_equal(body(text), body(text.replace("a", "b").replace("rbnge", "range")))
    assert not structural_equal(body(text), body(text.replace("1.0", "2.0")))
    assert not structural_equal(body("out[0] = x[0, 1]"), body("out[0] = x[0, 2]"))


def test_a_decorated_kernel_needs_no_module() -> None:
    @I.kernel
    def double(x: R.Tensor(("n",), "float32"), out: R.Tensor(("n",), "float32")):
        for i in range(x.shape[0]):
            out[i] = x[i] * 2

    assert isinstance(double, Kernel) and double.name == "double"
    assert [p.name for p in double.operands] == ["x"]
    builder = BlockBuilder()
    kernel = builder.kernel(double)
    x = Var("x", TensorStructInfo((3,), "float32"))
    with builder.function("main", [x]), builder.dataflow():
        info = TensorStructInfo((3,), "float32")
        y = builder.emit_output(R.call_kernel(kernel, (x,), out_sinfo=info))
        builder.emit_func_output(y)
    module = builder.get()
    check_well_formed(module)
    assert structural_equal(structir.parse(module.script()), module)


def test_bare_functions_call_bare_kernels() -> None:
    text = HEAD + "    out[0] = 1\n\n\n@R.function\ndef main(x: R.Tensor((3, 4), 'float32')):\n"
    text += "    return R.call_kernel(f, (x,), out_sinfo=R.Tensor((3,), 'float32'))\n"
    module = structir.parse(text)
    assert module["main"].ret_struct_info == TensorStructInfo((3,), "float32")


WRONG = {
    "return out": "return",
    "import os": "import",
    "eval('1')": "an expression statement is not supported in",
    "out[0] = eval('1')": "unknown kernel function `eval`",
    "out[0] = f(x, out)": "unknown kernel function `f`",
    "out[0] = x.T[0, 0]": "`x.T` is not supported in @I.kernel",
    "out[0] = x.__class__": "attribute",
    "out[0] = T.__dict__": "attribute",
    "out[0] = [v for v in x]": "comprehension",
    "out[0] = (lambda: 1)()": "unknown kernel function `lambda: 1`",
    "out[0] = (y := 1.0)": ":=",
    "global n": "global",
    "out = x": "cannot assign to `out`: it is a parameter",
    "n = 3": "`n` is already defined: it is a dim or a name",
    "min = 3": "`min` is already defined: it is a dim or a name",
    "x.shape = 3": "assign to a name",
    "a, b = 1, 2, 3": "expected 2 values, found (1, 2, 3)",
    "a, *b = 1, 2": "expected 2 values, found (1, 2)",
    "a = out[0] = 1": "expected one element as the target",
    "for i in range(n):\n    out[0] = 1\nelse:\n    out[1] = 1": "`else` of a loop",
    "a: int = 1": "an annotated assignment is not supported in",
    "out[0] = x[0]": "`x`: expected 2 indices, found 1",
    "out[0] = x[0, 1.5]": "index: expected an integer, found float32",
    "out[0] = x[0, -1]": "negative",
    "out[0] = x": "expected a scalar, found the array `x`",
    "out[0] = n": "expected float32, found int64: n",
    "out[0] = x[0, 0] + True": "dtype mismatch: operands of x[0, 0] + True are",
    "out[0] = 5 / n": "`/`: expected floats, found int64",
    "out[0] = x[0, 0] & 2": "`&`: expected integers or booleans, found float32",
    "out[0] = not x[0, 0]": "`not`: expected booleans, found float32",
    "a = T.int8(200)": "200 is out of range for int8",
    "a = 1\na = 2.5": "expected int64, found the float 2.5",
    "a = 1\na = x[0, 0]": "`a`: expected int64, found float32",
    "for i in range(n):\n    i = 2": "cannot assign to `i`: it is the variable of an",
    "for i in range(n):\n    for i in range(n):\n        out[i] = 1": "is already the variable",
    "for i in range(n, 0, n):\n    out[i] = 1": "range: expected a constant step other than 0,",
    "for i in x:\n    out[0] = 1": "expected a loop over `range`, found x",
    "for i in range(n):\n    break\n    out[i] = 1": "unreachable statement",
    "break": "`break` outside of a loop",
    "while x[0, 0]:\n    out[0] = 1": "condition: expected bool, found float32",
    "a = T.zeros((n,))": "T.zeros: expected a shape and a dtype, bound to",
    "out[0] = T.exp(x[0, 0], 1)": "T.exp: expected 1 argument, found 2",
    "out[0] = 'one'": "expected a number, found 'one'",
    "out[0] = 1j": "expected a number, found 1j",
    "out[0] = y": "`y` is not defined",
    "a = 1\nlo, hi = T.part(n)": "T.part must be the first statement of a CPU",
    "lo, hi = T.part(n)\na, b = T.part(n)": "T.part must be the first statement of a CPU",
    "lo = T.part(n)": "T.part: expected two names and one extent",
    "out.flat[0, 0] = 1": "`out.flat`: expected 1 index, found 2",
    "T.transpose(out.flat[0], x.flat[0])": "T.transpose: expected 6 arguments, found 2",
    "T.transpose(out[0], x.flat[0], 1, 1, 1, 1)": "T.transpose: expected the first elements of",
    "h = T.zeros((4,), 'int8')\nT.transpose(out.flat[0], h.flat[0], 1, 1, 1, 1)": "arrays of",
    "T.exp(x[0, 0])": "an expression statement is not supported in",
    "a = 1": "writes to no parameter",
    "out[0] = " + "(" * 70 + "1" + ")" * 70 + " + 1" * 70: "nested too deeply",
}


@pytest.mark.parametrize("text", WRONG, ids=list(WRONG.values()))
def test_an_invalid_kernel_is_rejected(text: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        body(text)
    first = caught.value.diagnostics[0]
    assert WRONG[text] in str(first)
    assert first.span is not None and first.hint


SIGNATURES = {
    'x, out: R.Tensor((3,), "float32")': "parameter `x` has no annotation",
    'x: R.Object, out: R.Tensor((3,), "float32")': "known rank and dtype",
    'x: R.Tensor((3,)), out: R.Tensor((3,), "float32")': "known rank and dtype",
    'x: R.Tensor(("n + 1",), "int8"), out: R.Tensor((3,), "float32")': "dim n is not bound",
    'out: R.Tensor((3,), "float32"), x: R.Tensor((3,), "float32")': "results must be the last",
    'out: R.Tensor((3,), "float32"), *x': "defaults, `*` and `/` are not supported in",
}


@pytest.mark.parametrize("params", SIGNATURES, ids=list(SIGNATURES.values()))
def test_wrong_signatures(params: str) -> None:
    with pytest.raises(ParseError) as caught:
        structir.parse(f"@I.kernel\ndef f({params}):\n    out[0] = 1\n")
    assert SIGNATURES[params] in str(caught.value)


def test_nothing_is_executed(tmp_path: object) -> None:
    text = HEAD + f"    out[0] = open({str(tmp_path)!r} + '/made', 'w')\n"
    with pytest.raises(DiagnosticError):
        structir.parse(text)
    assert list(tmp_path.iterdir()) == []  # type: ignore[attr-defined]


def with_main(value: object) -> IRModule:
    main = Rows["main"]
    (block,) = main.body.blocks
    (binding,) = block.bindings
    made = replace(block, bindings=(VarBinding(binding.var, value),))  # type: ignore[arg-type]
    function = replace(main, body=replace(main.body, blocks=(made,)))
    return Rows.with_functions({**Rows.functions, "main": function})


def test_a_kernel_is_not_a_value() -> None:
    kernel = GlobalVar("sums", Rows.functions["sums"].struct_info)  # type: ignore[attr-defined]
    with pytest.raises(WellFormedError, match="can only be called"):
        check_well_formed(with_main(kernel))


def test_a_call_must_fit_the_kernel_that_the_module_has() -> None:
    text = """
@I.kernel
def sums(x: R.Tensor(("n", "m"), "int32"), out: R.Tensor(("n",), "float32")):
    out[0] = T.float32(x[0, 0])
"""
    functions = {**Rows.functions, "sums": structir.parse(text).functions["sums"]}
    with pytest.raises(WellFormedError, match="operand 0: expected"):
        check_well_formed(Rows.with_functions(functions))


def test_passes_treat_a_call_as_pure() -> None:
    text = Rows.script().replace(
        "R.output(y)",
        "a = R.call_kernel(cls.sums, (x,), out_sinfo=R.Tensor((n,), 'float32'))\n"
        "            R.output(y)",
    )
    module = structir.parse(text)
    assert isinstance(module["main"], Function) and len(module["main"].bindings()) == 2
    assert structural_equal(DeadCodeElimination()(module), Rows)
    shared = CommonSubexpressionElimination()(module)
    assert len(shared["main"].bindings()) == 1


@pytest.mark.parametrize(
    "condition",
    [
        "False",
        "False and T.bool(max(i, 2))",
        "not True and (True if False else False)",
        "True or i > 2",
    ],
)
def test_a_condition_of_literals_is_kept(condition: str) -> None:
    text = HEAD + f"    for i in range(n):\n        if {condition}:\n"
    text += "            out[i] = x[i, 0]\n        else:\n            out[i] = x[i, 1]\n"
    module = structir.parse(text)
    assert f"if {condition}:" in module.script()
    assert structir.structural_equal(structir.parse(module.script()), module)
