"""Tests of ops on operands of unknown rank: axes that an op does not touch are kept."""

import warnings
from itertools import product

import numpy as np
import pytest

import structir
from structir.analysis.axes import axes_of
from structir.errors import DiagnosticWarning, StructInfoError, StructIRError
from structir.ir.axes import AnySize
from structir.ir.module import IRModule
from structir.ir.struct_info import TensorStructInfo

ANY = 'R.Tensor(dtype="float32")'
ENDS = 'R.Tensor(("a", "*s", "b"), "float32")'


def parsed(text: str) -> IRModule:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiagnosticWarning)  # annotations that only infer can decide
        return structir.parse(text)


def program(param: str, value: str) -> str:
    return f"@R.function\ndef main(x: {param}):\n    y = {value}\n    return y\n"


def shapes(text: str, refine: str | None = None) -> tuple[str, str]:
    """Returns the inferred StructInfos of the first parameter and of the result."""
    main = structir.infer(parsed(text), refine=refine)["main"]
    return str(main.params[0].struct_info), str(main.ret_struct_info)


def tensor(axes: str) -> str:
    return f'R.Tensor({axes}, dtype="float32")'


@pytest.mark.parametrize(
    ("value", "operand", "result"),
    [
        ("R.stack((x, x), axis=0)", '("*r0",)', '(2, "*r0")'),
        ("R.stack((x, x), axis=-1)", '("*r0",)', '("*r0", 2)'),
        ("R.squeeze(x, 0)", '(1, "*y")', '("*y",)'),
        ("R.repeat(x, 2, axis=0)", '(i0, "*rest")', '(2 * i0, "*rest")'),
        ("R.strided_slice(x, axes=[0], begin=[0], end=[2])", '(i0, "*rest")', '("_", "*rest")'),
        ("R.strided_slice(x, axes=[-1], begin=[0], end=[2])", '("*rest", i0)', '("*rest", "_")'),
        ("R.split(x, 2, axis=0)[1]", '(a0, "*rest")', '("_", "*rest")'),
        ("R.split(x, 2, axis=-1)[0]", '("*rest", a0)', '("*rest", "_")'),
        ("R.cumsum(x, axis=-1)", '("*rest", j)', '("*rest", j)'),
        ("R.permute_dims(R.permute_dims(x))", '("*r0",)', '("*r0",)'),
    ],
)
def test_unknown_rank_keeps_the_axes_that_an_op_does_not_touch(
    value: str, operand: str, result: str
) -> None:
    assert shapes(program(ANY, value)) == (tensor(operand), tensor(result))


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ("R.stack((x, x), axis=1)", '(a, 2, "*s", b)'),
        ("R.repeat(x, 3, axis=-1)", '(a, "*s", 3 * b)'),
        ("R.tile(x, (2,))", '(a, "*s", 2 * b)'),
        ("R.strided_slice(x, axes=[0], begin=[0], end=[2])", '("_", "*s", b)'),
        ("R.split(x, 2, axis=-1)[0]", '(a, "*s", "_")'),
        ("R.permute_dims(R.permute_dims(x))", '(a, "*s", b)'),
    ],
)
def test_axes_beside_a_row_variable_are_kept(value: str, result: str) -> None:
    assert shapes(program(ENDS, value))[1] == tensor(result)


def test_sections_of_an_unknown_rank_have_independent_sizes() -> None:
    text = program(ANY, "R.split(x, [2], axis=0)").replace("main(x", "main(u: R.Tensor((2, 4)), x")
    text = text.replace("return y", "z: R.Tensor((2, 4), 'float32') = y[0]\n    return y[1]")
    main = structir.infer(parsed(text))["main"]
    assert str(main.ret_struct_info) == tensor("(a0 - 2, 4)")


@pytest.mark.parametrize(
    "x", [ANY, 'R.Tensor(("*s",), "float32")', 'R.Tensor(ndim=4, dtype="float32")']
)
@pytest.mark.parametrize(
    ("value", "sizes"),
    [
        ("R.nn.conv2d(x, w, strides=(2, 2), padding=(1, 1))", (2, 8, 3, 4)),
        ("R.nn.conv2d(x, w, dilation=(2, 1), strides=(1, 3))", (2, 8, 1, 2)),
        ("R.nn.max_pool2d(x, (2, 2), strides=(2, 2), ceil_mode=True)", (2, 3, 3, 4)),
        ("R.split(R.nn.avg_pool2d(x, (2, 2), strides=(2, 2)), [1], axis=0)[0]", (1, 3, 2, 3)),
    ],
)
def test_strided_window_over_an_unknown_shape_has_the_sizes_of_its_signature(
    x: str, value: str, sizes: tuple[int, ...]
) -> None:
    params = f'{x}, w: R.Tensor((8, 3, 3, 3), "float32")'
    inferred = structir.infer(parsed(program(params, value)))
    result = inferred["main"].ret_struct_info
    assert result.ndim == 4
    assert result.dims is not None
    arguments = np.ones((2, 3, 5, 7), "float32"), np.ones((8, 3, 3, 3), "float32")
    assert structir.interpret(inferred, "main", *arguments).shape == sizes
    assert structir.structural_equal(structir.infer(inferred), inferred)


UNARY = [
    "R.permute_dims(x)",
    "R.flip(x, axis=0)",
    "R.squeeze(x, 0)",
    "R.squeeze(x, -1)",
    "R.repeat(x, 2, axis=0)",
    "R.repeat(x, 2, axis=-1)",
    "R.tile(x, (2, 3))",
    "R.stack((x, x), axis=1)",
    "R.cumsum(x, axis=-2)",
    "R.split(x, [1], axis=0)[1]",
    "R.strided_slice(x, axes=[-1], begin=[1], end=[3])",
    "R.nn.layer_norm(x, R.ones((1,), 'float32'), R.zeros((1,), 'float32'), axes=[-1])",
    "R.argmax(x, axis=-1)",
    "R.expand_dims(x, 1)",
]


@pytest.mark.parametrize("value", UNARY)
@pytest.mark.parametrize("rank", [2, 3, 5, 8])
def test_scheme_of_any_rank_agrees_with_the_op_at_each_rank(value: str, rank: int) -> None:
    """A call of a helper of unknown rank infers no other axes than the op itself."""
    sizes = (1, *range(2, rank), 1)
    helper = program(ANY, value).replace("main", "helper").replace("\n", "\n    ")
    caller = program(f'R.Tensor({sizes}, "float32")', "cls.helper(x)")
    caller = caller.replace("    y =", "    cls = M\n    y =").replace("\n", "\n    ")
    module = structir.infer(parsed(f"@I.ir_module\nclass M:\n    {helper}\n    {caller}"))
    direct = parsed(program(f'R.Tensor({sizes}, "float32")', value))["main"].ret_struct_info
    assert_not_sharper(module["main"].ret_struct_info, direct)


def assert_not_sharper(inferred: TensorStructInfo, direct: TensorStructInfo) -> None:
    """Checks that inferred axes are those of the op, or unknown."""
    assert inferred.ndim in (None, direct.ndim)
    for inferred_axis, size in zip(axes_of(inferred) or (), direct.dims, strict=False):
        assert type(inferred_axis) is AnySize or inferred_axis == size


def test_function_returns_the_declared_row_variable_of_its_parameter() -> None:
    text = program('R.Tensor(("*s",), "float32")', "R.sort(x)")
    assert shapes(text, refine="checks")[1] == tensor('("*s",)')


@pytest.mark.parametrize("value", ["R.tril(x)", "R.nn.pixel_shuffle(x, 2)", "R.squeeze(x, 0)"])
@pytest.mark.parametrize("row", ["s", "rest"])
def test_checks_of_a_row_variable_have_their_own_names_and_parse_back(value: str, row: str) -> None:
    text = program(f'R.Tensor(("*{row}",), "float32")', value)
    module = structir.infer(parsed(text), refine="checks")
    check = module["main"].bindings()[0]
    assert f"*{row}" not in str(check.struct_info)
    assert structir.structural_equal(parsed(module.script()), module)
    assert structir.structural_equal(structir.infer(module, refine="checks"), module)


def test_reshape_of_unknown_rank_preserves_the_number_of_elements() -> None:
    with pytest.raises(StructInfoError, match=r"cannot reshape 5 \* s_0 elements to \(24,\)"):
        parsed(program('R.Tensor(("*s", 5), "float32")', "R.reshape(x, (24,))"))
    text = """
@R.function
def main(x: R.Tensor(("*s", 2), "float32"), z: R.Tensor(("*s",), "float32")):
    y = R.reshape(x, (6,))
    w = R.reshape(z, ({},))
    return y, w
"""
    structir.infer(parsed(text.format(3)))
    with pytest.raises(StructInfoError, match="one dim must be both 3 and 4"):
        structir.infer(parsed(text.format(4)))


@pytest.mark.parametrize(
    ("value", "operand", "result"),
    [
        ('R.einsum((x,), "*b *o -> *o *b")', '("*b", "*o")', '("*o", "*b")'),
        ('R.einsum((x,), "*p i *q -> *q *p i")', '("*b", "n", "*o")', '("*o", "*b", n)'),
        ('R.einsum((x,), "*p *q k -> *q k")', '("*b", "*o", 4)', '("*o", 4)'),
        ('R.einsum((x,), "*p *q *r -> *r *q *p")', '("*b", "*i", "*o")', '("*o", "*i", "*b")'),
    ],
)
def test_row_variables_of_one_operand_stay_distinct(value: str, operand: str, result: str) -> None:
    info = f'R.Tensor({operand}, "float32")'
    assert shapes(program(info, value))[1] == tensor(result)


@pytest.mark.parametrize(
    ("call", "operand", "result"),
    [
        ("*s *t -> *t *s", '("*b", "*o")', '("*o", "*b")'),
        ("*s *t -> *t *s", '("*b",)', '("*t", "*s")'),
        ("*s i *t -> *t i *s", '("*b", "n", "*o")', '("*o", n, "*b")'),
        ("*s *t -> *t *s", '("n", 3, 5)', None),  # any split is possible
        ("*s *t -> *t *s where elements(*s) == 4", '("*b", "*o")', None),
    ],
)
def test_size_signature_swaps_row_variables(call: str, operand: str, result: str | None) -> None:
    info = f'R.Tensor({operand}, "float32")'
    expected = 'R.Tensor(dtype="float32")' if result is None else tensor(result)
    assert shapes(program(info, f'R.sig("{call}", function="f")(x)'))[1] == expected


def test_size_signature_that_swaps_row_variables_runs() -> None:
    structir.interpret.register_extern("test.swap", lambda z, x: x.transpose(2, 0, 1))
    call = 'R.sig("*s; *s *t -> *t *s", function="test.swap", dtype="float32")(z, x)'
    text = program('R.Tensor(("*b", "*o"), "float32")', call)
    text = text.replace("main(x", 'main(z: R.Tensor(("*b",)), x')
    inferred = structir.infer(parsed(text))
    assert str(inferred["main"].ret_struct_info) == tensor('("*o", "*b")')
    z, x = np.ones((5, 3), "float32"), np.ones((5, 3, 2), "float32")
    assert structir.interpret(inferred, "main", z, x).shape == (2, 5, 3)
    assert structir.compile(inferred)["main"](z, x).shape == (2, 5, 3)
    with pytest.raises(StructIRError):
        structir.interpret(inferred, "main", z, np.ones((4, 3, 2), "float32"))


REVERSED = """
@I.ir_module
class M:
    @R.function
    def reverse(x: R.Tensor(("*s",), "float32")):
        return R.permute_dims(x)
    @R.function
    def main(x: {operand}){result}:
        cls = M
        y = {value}
        return y
"""


@pytest.mark.parametrize(
    ("operand", "value", "result", "expected"),
    [
        ('(2, 3, "n")', "cls.reverse(x)", "", ("(2, 3, n)", "(n, 3, 2)")),
        ('("*r", "n")', "cls.reverse(x)", "(4, 3)", ("(3, 4)", "(4, 3)")),
        ('("*r",)', "R.nn.relu(R.permute_dims(x))", "(4, 3)", ("(3, 4)", "(4, 3)")),
        ('("*r", 2)', "cls.reverse(cls.reverse(x))", "", ('("*r", 2)', '("*r", 2)')),
        ('("a", "*r")', "R.permute_dims(x, (1, 0, 2))", "", ("(a, i1, i2)", "(i1, a, i2)")),
        ('("*r", "a")', "R.permute_dims(R.sum(cls.reverse(x), 0))", "", ('("*r", a)', '("*r",)')),
        ('("*r", "a")', "cls.reverse(x)", "", ('("*r", a)', None)),
    ],
)
def test_reversed_axes_of_unknown_rank_keep_their_relation(
    operand: str, value: str, result: str, expected: tuple[str, str | None]
) -> None:
    """No StructInfo has reversed axes of unknown rank, but `infer` relates them."""
    declared = f' -> R.Tensor({result}, "float32")' if result else ""
    text = REVERSED.format(operand=f'R.Tensor({operand}, "float32")', value=value, result=declared)
    main = structir.infer(parsed(text))["main"]
    infos = [main.params[0].struct_info, main.ret_struct_info]
    unknown = 'R.Tensor(dtype="float32")'
    assert [*map(str, infos)] == [unknown if e is None else tensor(e) for e in expected]


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_operand_and_its_reversal_have_equal_ranks(rank: int) -> None:
    text = REVERSED.format(
        operand='R.Tensor(("*r",), "float32")',
        value="R.permute_dims(x)",
        result=f' -> R.Tensor(ndim={rank}, dtype="float32")',
    )
    main = structir.infer(parsed(text))["main"]
    assert main.params[0].struct_info.ndim == rank


def test_a_second_operand_splits_the_axes_of_the_first() -> None:
    """The declared row variables `*b` and `*o` are not those of the subscripts."""
    text = program('R.Tensor(("*b", "*o"), "float32")', 'R.einsum((x, z), "*p *q; *p -> *q *p")')
    text = text.replace("main(x", 'main(z: R.Tensor((5,), "float32"), x')
    module = parsed(text)
    x, z = np.ones((5, 3, 2), "float32"), np.ones(5, "float32")
    inferred = structir.infer(module)
    declared = inferred["main"].ret_struct_info
    result = structir.interpret(inferred, "main", z, x)
    assert result.shape == (3, 2, 5)
    assert '"*o", "*b"' not in str(declared)
    assert declared.dims is None


def maximum(b: str, result: str = "R.Tensor((3, 4), 'float32')") -> IRModule:
    """Returns a program whose declared result bounds the operand `b`."""
    text = program(tensor("(3, 4)"), "R.maximum(x, b)")
    return parsed(text.replace("):\n", f", b: {b}) -> {result}:\n", 1))


@pytest.mark.parametrize(
    ("b", "constraint"),
    [
        (ANY, "RowLe(inner=(*r"),
        ('R.Tensor(ndim=2, dtype="float32")', "outer=4)"),
        ('R.Tensor((3, "k"), "float32")', "DimLe(inner=k, outer=4)"),
    ],
)
def test_open_operand_of_a_broadcast_is_reported_with_its_bound(b: str, constraint: str) -> None:
    report = structir.solver.explain(maximum(b))
    assert constraint in str(report)
    assert "outer=(3, 4)" in str(report) or constraint != "RowLe(inner=(*r"


@pytest.mark.parametrize("b", [ANY, 'R.Tensor(ndim=2, dtype="float32")'])
def test_operand_of_a_broadcast_keeps_every_shape_that_a_run_allows(b: str) -> None:
    """Sizes are 1 or those of the result; ranks are smaller or equal."""
    inferred = structir.infer(maximum(b))
    x = np.zeros((3, 4), "float32")
    ranks = range(4) if b == ANY else [2]
    for sizes in [s for rank in ranks for s in product((1, 3, 4), repeat=rank)]:
        operand = np.ones(sizes, "float32")
        try:
            valid = np.broadcast_shapes(x.shape, sizes) == x.shape
        except ValueError:
            valid = False
        if valid:
            assert structir.interpret(inferred, "main", x, operand).shape == x.shape
        else:
            with pytest.raises(StructIRError):
                structir.interpret(inferred, "main", x, operand)
