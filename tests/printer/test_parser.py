"""The parser: accepted source and its IR, rejected source and its messages."""

import warnings

import pytest

import structir
from structir.analysis import binding_struct_infos
from structir.errors import (
    DiagnosticError,
    DiagnosticWarning,
    ParseError,
    ShapeMismatchError,
    StructInfoError,
)
from structir.ir import Call, DataflowBlock, DataflowVar, IRModule, MatchCast, Var

HEAD = '@R.function\ndef main(c: R.Tensor((), "bool"), x: R.Tensor(("n", 4), "float32")):\n'


def program(*lines: str) -> IRModule:
    return structir.parse(HEAD + "".join(f"    {line}\n" for line in lines))


def infos(module: IRModule, name: str = "main") -> dict[str, str]:
    return {key: str(info) for key, info in binding_struct_infos(module[name]).items()}


def messages(text: str, kind: type[DiagnosticError] = DiagnosticError) -> list[str]:
    with pytest.raises(kind) as caught:
        structir.parse(text)
    return [diagnostic.message for diagnostic in caught.value.diagnostics]


def test_a_text_may_be_indented_and_begin_with_blank_lines() -> None:
    text = """

        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            y = R.exp(x)
            return nowhere
    """
    with pytest.raises(ParseError) as caught:
        structir.parse(text)
    span = caught.value.diagnostics[0].span
    assert span is not None and (span.line, span.column) == (6, 19)


def test_nested_expressions_are_bound_in_order_of_evaluation() -> None:
    module = program("y = R.exp(x + R.log(x)) * 2.0", "return (y, R.exp(y))")
    ops = [binding.value.op.name for binding in module["main"].bindings()]
    assert ops == ["log", "add", "exp", "multiply", "exp"]
    assert [b.var.name for b in module["main"].bindings()] == ["gv", "gv1", "gv2", "y", "gv3"]


def test_fresh_names_keep_out_of_the_way() -> None:
    module = program("gv = R.exp(x)", "gv1 = R.exp(R.exp(gv))", "return gv1")
    assert [b.var.name for b in module["main"].bindings()] == ["gv", "gv2", "gv1"]


def test_variables_that_are_not_outputs_are_dataflow_variables() -> None:
    module = program(
        "with R.dataflow():", "    a = R.exp(x)", "    b = R.log(a)", "    R.output(b)", "return b"
    )
    (block,) = module["main"].body.blocks
    assert isinstance(block, DataflowBlock)
    assert [type(b.var) for b in block.bindings] == [DataflowVar, Var]


def test_operators_and_fields() -> None:
    module = program(
        "a = (x - x) / x",
        "b = -a",
        "d = a < b",
        "e = a @ R.permute_dims(b)",
        "t, u = (a, (b, d))",
        "v = u[-1]",
        "return (e, t, v)",
    )
    found = infos(module)
    assert found["d"] == found["v"] == 'R.Tensor((n, 4), dtype="bool")'
    assert found["e"] == 'R.Tensor((n, n), dtype="float32")'


def test_sizes_are_computed() -> None:
    module = program(
        "n = T.int64()",
        "m, k = T.int64(), T.int64()",
        "z = R.zeros((n * 2 + 1, T.max(n, 4), n // 2, 10 % 4), 'int8')",
        "y = R.match_cast(x, R.Tensor((m, k), 'float32'))",
        "w: R.Tensor((m, 'k'), 'float32') = R.exp(y)",
        "return (z, w)",
    )
    found = infos(module)
    assert found["z"] == 'R.Tensor((2 * n + 1, T.max(n, 4), n // 2, 2), dtype="int8")'
    assert found["w"] == 'R.Tensor((m, k), dtype="float32")'


def test_functions_are_deduced_before_those_that_call_them() -> None:
    module = structir.parse(
        """
class Net:
    @R.function
    def main(x: R.Tensor((3, 4), "float32")):
        return Net.second(x)

    @R.function
    def second(x: R.Tensor(("n", 4), "float32")):
        self_ = Net
        return self_.third(x)

    @R.function
    def third(x: R.Tensor(("n", "m"), "float32")):
        return R.permute_dims(x)
"""
    )
    assert list(module.functions) == ["main", "second", "third"]
    assert module.name == "Net"
    assert str(module["main"].ret_struct_info) == 'R.Tensor((4, 3), dtype="float32")'


def test_functions_that_call_themselves_are_read_again_once_their_result_is_known() -> None:
    module = structir.parse(
        """
class Module:
    @R.function
    def even(c: R.Tensor((), "bool"), x: R.Tensor(("n",), "float32")):
        if c:
            y = Module.odd(c, x)
        else:
            y = x
        return (x, c)

    @R.function
    def odd(c: R.Tensor((), "bool"), x: R.Tensor(("n",), "float32")):
        return Module.even(c, x)
"""
    )
    assert infos(module, "even")["y.then.y"].startswith("R.Tuple(")
    assert structir.structural_equal(structir.parse(module.script()), module)


def test_functions_outside_a_class_call_each_other_by_name() -> None:
    module = structir.parse(
        """
from tvm.script import relax as R

@R.function
def main(x: R.Tensor((3,), "float32")):
    return twice(x)

@R.function
def twice(x: R.Tensor(("n",), "float32")):
    return x + x
"""
    )
    assert str(module["main"].ret_struct_info) == 'R.Tensor((3,), dtype="float32")'


def test_a_nested_function_with_a_result_may_call_itself() -> None:
    module = program(
        "@R.function",
        "def walk(a: R.Tensor(('k',), 'float32')) -> R.Tensor(('k',), 'float32'):",
        "    return walk(R.exp(a))",
        "return walk(R.flatten(x))",
    )
    assert infos(module)["walk"].startswith("R.Callable((R.Tensor((k,)")


def test_a_nested_function_shares_dims_unless_it_declares_its_own() -> None:
    module = program(
        "n = T.int64()",
        "@R.function",
        "def same(a: R.Tensor(('n',), 'float32')):",
        "    return R.reshape(a, (n, 1))",
        "@R.function",
        "def own(a: R.Tensor(('n',), 'float32')):",
        "    n = T.int64()",
        "    return a",
        "return x",
    )
    same, own = (b.value for b in module["main"].bindings())
    outside = module["main"].params[1].struct_info.dims[0]
    assert same.params[0].struct_info.dims[0] == outside
    assert own.params[0].struct_info.dims[0] != outside


def test_a_long_chain_of_operators_is_not_nesting() -> None:
    module = program("y = " + " + ".join(["x"] * 300), "return y")
    assert len(module["main"].bindings()) == 299


@pytest.mark.parametrize(
    "expression",
    [
        "R.exp(" * 90 + "x" + ")" * 90,
        "R.exp(" * 400 + "x" + ")" * 400,
        "(" * 80 + "x" + ",)" * 80,
        " + ".join(["x"] * 9000),
        "-" * 5000 + "x",
        "x" + "[0]" * 5000,
    ],
)
def test_too_deep_nesting_is_an_error(expression: str) -> None:
    with pytest.raises(ParseError):
        program(f"y = {expression}", "return y")


def test_branches_nested_too_deeply_are_an_error() -> None:
    depth = 80
    lines = [f"{'  ' * i}if c:" for i in range(depth)] + ["  " * depth + "y = x"]
    for i in reversed(range(depth)):
        lines += [f"{'  ' * i}else:", f"{'  ' * (i + 1)}y = x"]
    with pytest.raises(ParseError, match="nested too deeply"):
        program(*lines, "return y")


def test_independent_errors_are_reported_together_without_consequences() -> None:
    found = messages(
        HEAD
        + """    a = R.exp(q)
    b = R.log(a)
    d = R.reshap(x, (4, 2))
    e = R.exp(x) + b
    for i in x:
        f = R.exp(i)
    g = R.exp(f)
    return r
"""
    )
    assert found == [
        "`q` is not defined",
        "unknown op `R.reshap`",
        "`for` is not supported in @R.function (loops live in @I.kernel)",
        "`r` is not defined",
    ]


def test_errors_of_several_functions_are_reported_together() -> None:
    text = "".join(f"@R.function\ndef f{i}(x: R.Object):\n    return y{i}\n" for i in range(3))
    assert messages(text) == [f"`y{i}` is not defined" for i in range(3)]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["y = [x for x in x]", "return y"], "comprehension"),
        (["y = x if c else x", "return y"], "a conditional expression is not supported in"),
        (["y = x and c", "return y"], "`and` is not supported in @R.function"),
        (["y = not c", "return y"], "`not` is not supported in @R.function"),
        (["y = lambda a: a", "return y"], "lambda"),
        (["y = f'{x}'", "return y"], "f-string"),
        (["y = x[0:2.5]", "return y"], "expected a constant integer as the index, found 2.5"),
        (["y = x is x", "return y"], "`is` is not supported in"),
        (["y = R.add(*x)", "return y"], "`*` is not supported in @R.function"),
        (["x[0] += x", "return x"], "augmented assignment is not supported in"),
        (["y = z = x", "return y"], "assignment"),
        (["while c:", "    y = x", "return x"], "while"),
        (["try:", "    y = x", "finally:", "    z = x", "return x"], "try"),
        (["with open('f'):", "    y = x", "return x"], "with"),
        (["import os", "return x"], "import"),
        (["del x", "return c"], "del"),
        (["global x", "return x"], "global"),
        (["y = b'x'", "return y"], "this literal is not supported in @R.function"),
        (["return x", "y = x"], "expected `return` with a value as the last"),
        (["y = x"], "expected `return` with a value as the last"),
        (["if c:", "    return x", "return x"], "expected an `else` branch: `if` has a value"),
        (
            ["if c:", "    y = x", "else:", "    z = x", "return x"],
            "both branches of `if` must bind the same last",
        ),
        (["with R.dataflow():", "    if c:", "        y = x", "return x"], "dataflow"),
        (["with R.dataflow():", "    R.output(y)", "return x"], "`y` is not defined"),
        (
            ["if c:", "    t = R.exp(x)", "    y = t", "else:", "    y = x", "return t"],
            "`t` is only visible in its branch of `if`",
        ),
        (["y = R.add", "return y"], "expected a call, found the bare op R.add"),
        (["y = x.strides", "return y"], "tensors have no attribute `strides`"),
        (["y = x[c]", "return y"], "constant integer"),
        (["y = x[0, 4]", "return y"], "subscript: index 4 is out of range for axis 1"),
        (["y = (x, c)[2]", "return y"], "tuple index 2 out of range for a 2-tuple"),
        (["y: R.Foo = x", "return y"], "expected a StructInfo such as R.Tensor((n, 4),"),
        (["y: R.Tensor((m,)) = x", "return y"], "`m` is not defined"),
        (["y = R.zeros((T.int64(),), 'int8')", "return y"], "inside an expression"),
        (["y = R.const(1, 'int7')", "return y"], "int7"),
        (
            ["y = R.const('a', 'int8')", "return y"],
            "R.const: expected numbers of dtype int8, found 'a'",
        ),
        (
            ["y = R.zeros((2 ** 100000,), 'int8')", "return y"],
            "expected an exponent of at most 64, found 100000",
        ),
        (
            ["y = R.zeros((1 // 0,), 'int8')", "return y"],
            "cannot evaluate 1 // 0: integer division or",
        ),
        (
            ["y = R.call_packed(x)", "return y"],
            "R.call_packed: expected the name of an external function, found x",
        ),
        (["y = x(c)", "return y"], "x is not callable: it is R.Tensor((n, 4)"),
        (["y = R.exp(x, axis=1)", "return y"], "axis"),
    ],
)
def test_unsupported_source_is_rejected(lines: list[str], message: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        program(*lines)
    first = caught.value.diagnostics[0]
    assert message in first.message
    assert first.span is not None and "^" in str(first)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(:", "syntax error: invalid syntax"),
        ("x = 3", "assignment"),
        ("def f(x):\n    return x", "function `f` has no decorator"),
        (
            "@R.function\ndef f(*x: R.Object):\n    return x",
            "f: `*` and `/` are not supported in",
        ),
        (
            "@R.function(fast=True)\ndef f(x: R.Object):\n    return x",
            "R.function has no option `fast`",
        ),
        (
            "@R.function\ndef f(x: R.Tensor(('n +',))):\n    return x",
            "expected a size, found 'n +'",
        ),
        (
            "@R.function\ndef f(x: R.Tensor(('x',)), n: R.Tensor(('n',))):\n    return x",
            "`x` is both a parameter and a symbolic dim",
        ),
        ("@R.function\ndef f() -> R.Shape:\n    return f.g", "`f.g` is not part of the language"),
    ],
)
def test_wrong_texts(text: str, message: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        structir.parse(text)
    assert message in str(caught.value)


def test_an_annotation_may_be_weaker_sharper_or_wrong() -> None:
    assert infos(program("y: R.Tensor = R.exp(x)", "return y"))["y"] == "R.Tensor"
    with pytest.warns(DiagnosticWarning, match=r"R.Tensor\(\(4, 4\)"):
        module = program("y: R.Tensor((4, 4), 'float32') = R.exp(x)", "return y")
    assert infos(module)["y"] == 'R.Tensor((4, 4), dtype="float32")'
    with pytest.raises(StructInfoError):
        program("y: R.Tensor((4, 5), 'float32') = R.exp(x)", "return y")


def test_strict_parsing_checks_undecided_annotations() -> None:
    text = HEAD + "    y: R.Tensor((4, 4), 'float32') = R.exp(x)\n    return y\n"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module = structir.parse(text, strict=True)
    call, cast = module["main"].bindings()
    assert isinstance(call.value, Call) and isinstance(cast, MatchCast)


def test_spans_point_into_a_text_that_is_not_ascii() -> None:
    text = HEAD + '    y = R.call_pure_packed("größe", R.exp(q))\n    return y\n'
    with pytest.raises(ParseError) as caught:
        structir.parse(text, "größe.py")
    span = caught.value.diagnostics[0].span
    assert span is not None
    assert text.splitlines()[span.line - 1][span.column : span.end_column] == "q"


def test_a_cast_inside_an_expression() -> None:
    module = program(
        "m = T.int64()", "y = R.exp(R.match_cast(x, R.Tensor((m, 4), 'float32')))", "return y"
    )
    assert infos(module)["y"] == 'R.Tensor((m, 4), dtype="float32")'


def test_a_scalar_that_is_a_length_gets_a_name() -> None:
    text = """
@R.function
def main(x: R.Prim("int64")):
    y = R.eye(x)
    z = R.eye(3, k=x)
    return y
"""
    module = structir.parse(text)
    function = module["main"]
    assert str(binding_struct_infos(function)["y"]) == 'R.Tensor((x, x), dtype="float32")'
    assert str(function.ret_struct_info) == 'R.Tensor(dtype="float32", ndim=2)'
    assert structir.structural_equal(structir.parse(module.script()), module)
    assert structir.interpret(module, "main", 2).tolist() == [[1, 0], [0, 1]]
    with pytest.raises(ShapeMismatchError):
        structir.interpret(module, "main", -2)


def test_a_text_that_states_the_result_keeps_its_scalar() -> None:
    text = """
@R.function
def main(x: R.Prim("int64")):
    y: R.Tensor(dtype="float32", ndim=2) = R.eye(x)
    return y
"""
    assert "match_cast" not in structir.parse(text).script()
