"""Ragged tensors run: against NumPy row by row, and against the padded program."""

from functools import partial

import numpy as np
import pytest

import structir
from structir import RaggedArray, passes
from structir.errors import ShapeMismatchError, StructInfoError, StructIRError
from structir.interpret.arguments import random_arguments
from structir.ir.dtype import numpy_dtype
from tests.ragged.programs import Program, check_gradient

LENGTHS = (3, 0, 4, 1)
PARAMS_OF_NUMBERS = 'x: R.Tensor(("n", "*"), "float32")'


def parsed(
    body: str, params: str = 'x: R.Tensor(("n", "*", 3), "float64")'
) -> structir.ir.IRModule:
    lines = "\n    ".join(body.strip().splitlines())
    return structir.parse(f"@R.function\ndef main({params}):\n    {lines}\n")


def rows(inner=(3,), lengths=LENGTHS, seed=0, dtype="float64"):
    rng = np.random.default_rng(seed)
    each = [rng.standard_normal((n, *inner)).astype(numpy_dtype(dtype)) for n in lengths]
    return RaggedArray.from_rows(each, dtype)


@pytest.mark.parametrize("seed", range(25))
def test_random_programs_match_numpy_row_by_row(seed):
    program = Program(seed)
    module = structir.parse(program.source)
    assert structir.structural_equal(structir.parse(module.script()), module)
    with np.errstate(all="ignore"):
        program.check(structir.interpret(module, "main", *program.args))


def test_a_random_program_compiles_and_is_saved(tmp_path):
    program = Program(8)
    module = structir.parse(program.source)
    compiled = structir.compile(module, num_threads=1)
    program.check(compiled["main"](*program.args))
    assert compiled.fallbacks == ()
    compiled.save(tmp_path / "program.sir")
    loaded = structir.load(tmp_path / "program.sir")
    assert structir.structural_equal(loaded.module, compiled.module)
    assert repr(loaded) == repr(compiled)
    program.check(loaded["main"](*program.args))


LENGTHS_OF_BLOCKS = (0, 1, 15, 16, 17, 31, 33, 47, 64, 0, 100, 3)
MONOIDS = ("sum", "prod", "max", "min")
MIXED = [1, 0, 3, 500, 2] * 40


@pytest.mark.parametrize(
    "lengths",
    (
        (*LENGTHS_OF_BLOCKS, *np.random.default_rng(0).integers(0, 60, 100)),
        [n * 20 for n in LENGTHS_OF_BLOCKS],
        [5] + [4] * 300 + [0] * 9,
        MIXED,
        [0, 9, 7, 8, 5],
    ),
    ids=("short", "long", "equal", "mixed", "few"),
)
def test_rows_are_computed_in_blocks_of_whole_vectors(lengths, blocks):
    rng = np.random.default_rng(0)
    x = RaggedArray(rng.standard_normal(sum(lengths), "float32"), np.cumsum([0, *lengths]))
    x[3][3] = np.nan
    share, total, most, scaled, joined = blocks(x)
    assert "in T.vectorized(32)" in blocks.source("main")
    for k, row in enumerate(x.rows()):
        row = row.astype("float64")
        powers = np.exp(row - row.max(initial=-np.inf))
        np.testing.assert_allclose(share[k], powers / powers.sum(), 1e-4, 1e-6)
        np.testing.assert_allclose(total[k], np.exp(row).sum(), 1e-4, 1e-6)
        np.testing.assert_allclose(most[k], row.max(initial=-np.inf), 1e-6)
        np.testing.assert_allclose(scaled[k], row * 2 - np.sum(row * row), 1e-3, 1e-3)
        np.testing.assert_array_equal(joined[k], np.concatenate([x[k], x[k] * 2]))


def test_rows_of_float16_are_summed_in_float32():
    module = parsed("y = R.sum(x, axis=1)\nreturn y", 'x: R.Tensor(("n", "*", 2), "float16")')
    x = RaggedArray(np.ones((4000, 2), ">f2"), [0, 4000])  # float16 does not have 2049
    assert structir.interpret(module, "main", x).tolist() == [[4000, 4000]]


@pytest.mark.parametrize("dtype", ("float64", "int32", "bfloat16"))
def test_reductions_of_rows_in_any_order_stay_inside_the_values(dtype):
    body = "\n".join([f"{m} = R.segment_{m}(x, starts, limits)" for m in MONOIDS])
    sizes = 'starts: R.Tensor(("n",), "int64"), limits: R.Tensor(("n",), "int64")'
    params = f'x: R.Tensor(("t",), "{dtype}"), {sizes}'
    module = parsed(body + f"\nreturn ({', '.join(MONOIDS)})", params)
    compiled, rng = structir.compile(module, num_threads=1), np.random.default_rng(0)
    x = rng.integers(1, 4, 3000).astype(numpy_dtype(dtype))
    tolerance = 2**-7 if dtype == "bfloat16" else 1e-12
    if dtype != "int32":
        x[rng.integers(0, 3000, 30)] = np.nan
    for most in (5, 40, 300):
        ordered = np.cumsum(rng.integers(0, most, 200)).clip(0, 3000)
        starts = rng.integers(-9, 3009, 200)
        for first, last in (
            (ordered[:-1], ordered[1:]),
            (starts, starts + rng.integers(-2, most, 200)),
        ):
            expected = structir.interpret(module, "main", x, first, last)
            for actual, reference in zip(compiled(x, first, last), expected, strict=True):
                pair = actual.astype("float64"), reference.astype("float64")
                np.testing.assert_allclose(*pair, tolerance)


@pytest.mark.parametrize("call", ("max(x, axis=1)", "sum(x, axis=1)"))
def test_rows_of_slices_of_whole_vectors_are_reduced(call):
    module = parsed(f"y = R.{call}\nreturn y", 'x: R.Tensor(("n", "*", 2, 16), "float32")')
    compiled, rng = structir.compile(module, num_threads=1), np.random.default_rng(0)
    assert "T.registers((32,)" in compiled.source("main")
    for lengths in ([], [0, 3, 0, 40, 1], [0, 0]):
        x = rows((2, 16), lengths) if lengths else RaggedArray(np.zeros((0, 2, 16)), [0])
        x = RaggedArray(x.values.astype("float32"), x.offsets)
        x.values.flat[rng.integers(0, x.values.size, 3 if x.values.size else 0)] = np.nan
        expected = structir.interpret(module, "main", x)
        np.testing.assert_allclose(compiled(x), expected, 1e-5, 1e-5)


@pytest.fixture(scope="module")
def blocks():
    """A compiled program whose kernels run in blocks of rows."""
    body = "a = R.nn.softmax(x, axis=1)\nb = R.sum(R.exp(x), axis=1)\nc = R.max(x, axis=1)\n"
    body += "d = R.multiply(x, 2)\ns = R.sum(R.multiply(x, x), axis=1, keepdims=True)\n"
    body += "e = R.subtract(d, s)\nf = R.concat((x, d), axis=1)\nreturn (a, b, c, e, f)"
    module = parsed(body, PARAMS_OF_NUMBERS)
    return structir.compile(module, num_threads=2)


def test_kernels_of_ragged_functions_are_profiled(blocks):
    profile = blocks.profile(rows((), dtype="float32"), repeat=1)
    assert profile.kernels and all([kernel.runs == 1 for kernel in profile.kernels])


@pytest.mark.parametrize("dtype", ("float64", "float16", "bfloat16", "bool"))
@pytest.mark.parametrize("operands, size", (("x, x", 0), ("x, y", 0), ("x, x", 3), ("x, y", 16)))
def test_concatenated_rows_have_the_bits_of_their_operands(dtype, operands, size):
    shape = '("n", "*")' if not size else f'("n", "*", {size})'
    params = ", ".join([f'{name}: R.Tensor({shape}, "{dtype}")' for name in "xy"])
    module = parsed(f"z = R.concat(({operands}), axis=1)\nreturn z", params)
    compiled = structir.compile(module, num_threads=2)
    assert compiled.fallbacks == ()
    inner, rng = (size,) if size else (), np.random.default_rng(size)
    for most in (1, 9, 70, 300):
        x, y = [rows(inner, rng.integers(0, n, 20), 0, dtype) for n in (most, 70)]
        second = x if operands == "x, x" else y
        joined = np.concatenate([np.concatenate(pair) for pair in zip(x, second, strict=True)])
        assert compiled(x, y).values.tobytes() == joined.tobytes()


@pytest.mark.parametrize("seed", (3, 8))
def test_lowered_programs_print_and_parse(seed):
    lowered = passes.LowerRagged()(structir.parse(Program(seed).source))
    assert structir.structural_equal(structir.parse(lowered.script()), lowered)
    assert passes.LowerRagged()(lowered).script() == lowered.script()


def test_a_softmax_of_rows_is_one_kernel():
    module = parsed("y = R.nn.softmax(x, axis=1)\nreturn y")
    compiled = structir.compile(module, num_threads=1)
    assert compiled.source("main").count("# kernel ") == 1
    x = rows()
    expected = [np.exp(r - r.max(0, initial=-9)) for r in x.rows()]
    actual = compiled(x)
    for row, e in zip(actual.rows(), expected, strict=True):
        np.testing.assert_allclose(row, e / e.sum(0))
    assert actual.offsets is x.offsets


def test_nested_lists_object_arrays_and_lists_of_arrays_are_arguments():
    module = parsed("y = R.multiply(x, x)\nreturn y", 'x: R.Tensor(("n", "*"), "float32")')
    lists = [[1.0, 2.0], [], [3.0]]
    arrays = [np.array(row, "float32") for row in lists]
    objects = np.empty(3, object)
    objects[:] = arrays
    compiled = structir.compile(module, num_threads=1)
    for value in (lists, arrays, objects, RaggedArray.from_rows(arrays)):
        for run in (compiled, lambda v: structir.interpret(module, "main", v)):
            assert run(value).to_list() == [[1.0, 4.0], [], [9.0]]


@pytest.mark.parametrize(
    "rows, dtype",
    (
        ([np.zeros(0, "int32"), np.zeros(0, "int32")], "int32"),
        ([np.zeros((0, 3), "float64"), np.zeros(0, "float64")], "float64"),
        ([[], np.zeros(0, "int8"), np.zeros(0, "int16")], "int16"),
        ([np.zeros(0, numpy_dtype("bfloat16"))], "bfloat16"),
        ([[], []], "float32"),
        ([], "float32"),
    ),
)
def test_empty_rows_keep_the_dtype_of_arrays(rows, dtype):
    assert RaggedArray.from_rows(rows).values.dtype == numpy_dtype(dtype)
    assert RaggedArray.from_rows(rows, "uint8").values.dtype == np.dtype("uint8")


def test_a_product_of_bfloat16_rows_overflows_without_a_warning(recwarn):
    module = parsed("y = R.prod(x, axis=1)\nreturn y", 'x: R.Tensor(("n", "*"), "bfloat16")')
    x = RaggedArray(np.full(400, 3, numpy_dtype("bfloat16")), [0, 3, 400])
    for actual in (structir.interpret(module, "main", x), structir.compile(module)["main"](x)):
        np.testing.assert_array_equal(actual.astype("float32"), [27, np.inf])
    assert not recwarn.list


def test_padded_tensors_convert_back():
    module = parsed(
        "u = R.ragged.to_padded(x)\nl = R.ragged.row_lengths(x)\nv = R.ragged.from_padded(u, l)\n"
        "w = R.ragged.to_padded(v, length=6, fill=2)\nreturn (u, v, w)"
    )
    x = rows()
    for run in (
        structir.compile(module, num_threads=1),
        lambda v: structir.interpret(module, "main", v),
    ):
        padded, back, longer = run(x)
        np.testing.assert_array_equal(padded, x.to_padded())
        assert back.to_list() == x.to_list()
        np.testing.assert_array_equal(longer, x.to_padded(6, 2))
    again = RaggedArray.from_padded(x.to_padded(), LENGTHS)
    assert again.to_list() == x.to_list() and len(again) == 4 and again[2].shape == (4, 3)


def test_branches_and_calls_pass_ragged_tensors():
    module = structir.parse("""
@I.ir_module
class Module:
    @R.function(private=True)
    def twice(a: R.Tensor(("n", "*"), "float64")) -> R.Tensor(("n", "*"), "float64"):
        b = R.add(a, a)
        return b

    @R.function
    def main(x: R.Tensor(("n", "*"), "float64"), c: R.Tensor((), "bool")):
        cls = Module
        if c:
            y = cls.twice(x)
        else:
            y = R.negative(x)
        z = R.add(y, x)
        s = R.sum(z, axis=1)
        return (z, s)
""")
    x = rows(())
    compiled = structir.compile(module, num_threads=1)
    for flag, factor in ((True, 3.0), (False, 0.0)):
        for run in (compiled["main"], lambda *a: structir.interpret(module, "main", *a)):
            z, s = run(x, np.array(flag))
            np.testing.assert_allclose(z.values, factor * x.values)
            np.testing.assert_allclose(s, [factor * row.sum() for row in x.rows()], atol=1e-12)


PADDED = """
y = R.multiply(R.matmul(x, w), mask)
e = R.multiply(R.exp(y), mask)
p = R.divide(e, R.sum(e, axis=1, keepdims=True))
q = R.add(R.multiply(p, R.tanh(y)), R.multiply(s, mask))
m = R.sum(R.multiply(q, q), axis=1)
loss = R.sum(R.multiply(m, R.sum(q, axis=1)))
return loss
"""
RAGGED = """
y = R.matmul(x, w)
p = R.nn.softmax(y, axis=1)
q = R.add(R.multiply(p, R.tanh(y)), s)
m = R.sum(R.multiply(q, q), axis=1)
loss = R.sum(R.multiply(m, R.sum(q, axis=1)))
return loss
"""


def test_gradients_equal_those_of_the_padded_program_with_masks():
    dense = 'w: R.Tensor((3, 2), "float64"), s: R.Tensor(("n", 1, 2), "float64")'
    ragged = parsed(RAGGED, f'x: R.Tensor(("n", "*", 3), "float64"), {dense}')
    masked = (
        f'x: R.Tensor(("n", "m", 3), "float64"), {dense}, mask: R.Tensor(("n", "m", 1), "float64")'
    )
    padded = parsed(PADDED, masked)
    x, rng = rows(lengths=(3, 1, 4)), np.random.default_rng(1)
    w, s = rng.standard_normal((3, 2)), rng.standard_normal((3, 1, 2))
    mask = x.with_values(np.ones((8, 1))).to_padded()
    names = "x w s"
    gradient = passes.Gradient()(ragged)
    reference = passes.Gradient(parameters=names)(padded)
    value, (gx, gw, gs) = structir.interpret(reference, "main_adjoint", x.to_padded(), w, s, mask)
    compiled = structir.compile(gradient, num_threads=1)["main_adjoint"]
    for run in (compiled, lambda *a: structir.interpret(gradient, "main_adjoint", *a)):
        loss, (rx, rw, rs) = run(x, w, s)
        np.testing.assert_allclose(loss, value, 1e-10)
        np.testing.assert_allclose(rx.to_padded(), gx, 1e-8, 1e-10)
        np.testing.assert_allclose(rw, gw, 1e-8, 1e-10)
        np.testing.assert_allclose(rs, gs, 1e-8, 1e-10)


SQUARES = "R.sum(R.multiply(y, y))"
ROW_BY_ROW = (  # on rows, and on one dense row
    *("R.exp(R.multiply(x, z))", "R.where(R.greater(x, z), x, z)", "R.divide(x, R.exp(s))"),
    *("R.maximum(x, z)", "R.astype(R.abs(x), 'float64')", "R.matmul(x, w)", "R.sum(x, axis=1)"),
    *("R.mean(x, axis=1)", "R.max(x, axis=1)", "R.min(x, axis=1)", "R.prod(x, axis=1)"),
    *("R.sum(x, axis=2)", "R.sum(R.exp(x), axis=[1, 2], keepdims=True)", "R.std(x, axis=1)"),
    *("R.variance(x, axis=1)", "R.nn.softmax(x, axis=1)", "R.nn.log_softmax(x, axis=1)"),
    *("R.concat((x, z), axis=1)", "R.concat((x, z), axis=2)", "R.concat((x, z), axis=0)"),
)
CONVERSIONS = {  # to the equal dense row
    "R.ragged.values(R.exp(x))": "R.exp(x)",
    "R.ragged.to_padded(R.exp(x))": "R.exp(x)",
    "R.ragged.to_padded(R.exp(x), length=6)": "R.exp(x)",
    "R.ragged.from_padded(R.ragged.to_padded(x), R.ragged.row_lengths(z))": "x",
    "R.ragged.from_values(R.ragged.values(R.exp(x)), R.ragged.row_starts(z), "
    "R.ragged.row_limits(z))": "R.exp(x)",
}
OVER_ROWS = ("R.sum(R.exp(x))", "R.sum(R.exp(x), axis=[0, 1])", "R.sum(R.matmul(x, w))")
GRADIENTS = [(body, body, SQUARES) for body in ROW_BY_ROW]
GRADIENTS += [(body, row, SQUARES) for body, row in CONVERSIONS.items()]
GRADIENTS += [(body, body, "R.sum(y)") for body in OVER_ROWS]


@pytest.mark.parametrize(("body", "row", "loss"), GRADIENTS, ids=[g[0] for g in GRADIENTS])
def test_gradients_of_every_op_equal_those_of_the_unrolled_program(body, row, loss):
    def adjoint(text: str, axes: str, count: str):
        params = [f'{x}: R.Tensor(({axes}, 3), "float64")' for x in "xz"]
        params += [f's: R.Tensor(({count}, 1, 3), "float64")', 'w: R.Tensor((3, 2), "float64")']
        module = parsed(f"y = {text}\nr = {loss}\nreturn r", ", ".join(params))
        return passes.Gradient(parameters="x z s w")(module)

    x, z = rows(lengths=(3, 1, 4)), rows(lengths=(3, 1, 4))
    z = z.with_values(np.sin(3 * z.values + 1))
    s, w = np.sin(np.arange(9.0)).reshape(3, 1, 3), np.cos(np.arange(6.0)).reshape(3, 2)
    ragged, unrolled = adjoint(body, '"n", "*:len"', '"n"'), adjoint(row, '1, "m"', "1")
    total, gradients = structir.interpret(ragged, "main_adjoint", x, z, s, w)
    parts = [
        structir.interpret(unrolled, "main_adjoint", x[k][None], z[k][None], s[k : k + 1], w)
        for k in range(3)
    ]
    np.testing.assert_allclose(total, sum([part[0] for part in parts]), 1e-10)
    of_rows = [list(each) for each in zip(*[part[1] for part in parts], strict=True)]
    for k in (0, 1):
        expected = np.concatenate([each[0] for each in of_rows[k]])
        np.testing.assert_allclose(gradients[k].values, expected, 1e-5, 1e-12)
    np.testing.assert_allclose(gradients[2], np.concatenate(of_rows[2]), 1e-5, 1e-12)
    np.testing.assert_allclose(gradients[3], sum(of_rows[3]), 1e-5, 1e-12)


@pytest.mark.parametrize("seed", (3, 8, 11, 68, 1002))
def test_gradients_of_random_programs_match_differences(seed):
    check_gradient(seed)


def test_what_a_branch_computes_of_rows_stays_in_it():
    body = "y = R.exp(x)\nif c:\n    z = R.std(y, axis=1)\nelse:\n"
    body += "    z = R.sum(R.nn.softmax(y, axis=1), axis=1)\nreturn z"
    module = parsed(body, f'{PARAMS_OF_NUMBERS}, c: R.Tensor((), "bool")')
    for flag, expected in ((True, [0, 0]), (False, [1, 1])):
        z = structir.interpret(module, "main", [[1.0, 1.0], [2.0]], np.array(flag))
        np.testing.assert_allclose(z, expected, atol=1e-6)


def test_named_axes_are_checked_where_the_function_is_entered():
    params = ", ".join([f'{x}: R.Tensor(("n", "*:len"), "float64")' for x in "xy"])
    module = parsed("z = R.add(x, y)\nreturn z", params)
    assert "*:len" in str(module["main"].ret_struct_info)
    x, y = rows((), (1, 2)), rows((), (2, 1))
    compiled = structir.compile(module, num_threads=1)
    for run in (compiled["main"], lambda *a: structir.interpret(module, "main", *a)):
        np.testing.assert_allclose(run(x, x).values, 2 * x.values)
        with pytest.raises(ShapeMismatchError, match="offsets of the axis") as caught:
            run(x, y)
        assert caught.value.code == "E0732"


def test_unnamed_axes_are_checked_by_the_op():
    module = parsed(
        "z = R.multiply(x, y)\nreturn z",
        ", ".join([f'{x}: R.Tensor(("n", "*"), "float64")' for x in "xy"]),
    )
    x, y = rows((), (1, 2)), rows((), (2, 1))
    compiled = structir.compile(module, num_threads=1)
    assert compiled.fallbacks == ()  # the check of parameters precedes the kernels
    for run in (compiled["main"], lambda *a: structir.interpret(module, "main", *a)):
        with pytest.raises(ShapeMismatchError, match=r"multiply at .*lengths 1 and 2 of row 0"):
            run(x, y)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ([[[1.0, 2.0, 3.0]], [[1.0]]], "E0730"),
        ([1.0, 2.0], "E0730"),
        ([[[1.0, 2.0, 3.0], [1.0]]], "E0730"),
        (np.ones((2, 2, 3)), "E0733"),
        (rows(()), "E0700"),
        (rows((4,)), "E0700"),
    ],
    ids=("unequal", "flat", "nested", "dense", "rank", "size"),
)
def test_wrong_arguments_are_errors(value, code):
    module = parsed("y = R.exp(x)\nreturn y")
    compiled = structir.compile(module, num_threads=1)
    for run in (compiled["main"], lambda v: structir.interpret(module, "main", v)):
        with pytest.raises(StructIRError) as caught:
            run(value)
        assert caught.value.code == code


@pytest.mark.parametrize("call", ("R.sum(x, axis=0)", "R.cumsum(x, axis=0)", "R.sort(x, axis=0)"))
def test_an_op_that_needs_a_dense_axis_names_the_edit(call):
    module = parsed(f"y = {call}\nreturn y")
    for run in (structir.compile, passes.LowerRagged()):
        with pytest.raises(StructInfoError, match=r"R\.ragged\.to_padded\(x\)") as caught:
            run(module)
        assert caught.value.diagnostics[0].span is not None


@pytest.mark.parametrize("seed", range(6))
def test_random_arguments_of_ragged_parameters_fit(seed):
    params = ", ".join([f'{x}: R.Tensor(("n", "*", 3), "float64")' for x in "xy"])
    module = parsed("z = R.sum(R.add(x, y), axis=1)\nreturn z", params)
    x, y = random_arguments(module["main"], seed)
    assert isinstance(x, RaggedArray) and (x.offsets == y.offsets).all()
    structir.interpret(module, "main", x, y)


def test_infer_completes_ragged_parameters():
    module = parsed(
        "y = R.matmul(x, w)\nz = R.ewise_fma(y, b, b)\nreturn z",
        'x: R.Tensor(("n", "*", "k"), "float32"), w: R.Tensor((3, 5), "float32"), '
        'b: R.Tensor(dtype="float32")',
    )
    inferred = structir.infer(module)
    x, w, b = random_arguments(inferred["main"], 1)
    assert isinstance(b, RaggedArray) and b.shape[1:] == (None, 5)
    z = structir.interpret(inferred, "main", x, w, b)
    np.testing.assert_allclose(z.values, (x.values @ w) * b.values + b.values, 1e-5, 1e-6)


def test_verify_compares_results_of_passes_on_ragged_arguments():
    module = parsed("y = R.nn.softmax(R.exp(x), axis=1)\nreturn y")
    with passes.PassContext(instruments=[passes.VerifyResults()]):
        passes.LowerRagged()(module)


OPERANDS = {"x": 'R.Tensor(("k", "m"), "float32")', "z": 'R.Tensor(("k",), "int64")'}
CALLS = [
    *["values(s)", "row_starts(s)", "row_limits(s)", "row_lengths(s)", "to_padded(s)"],
    *["from_values(s, z, z)", "from_values(x, s, z)", "from_values(x, z, s)"],
    *["from_padded(s, z)", "from_padded(x, s)", "same_rows(s, z, z, z, z, where='a')"],
    "same_rows(x, z, z, z, s, where='a')",
]


@pytest.mark.parametrize("kind", ['R.Shape(("a", "b"))', "R.Tuple(R.Object)", 'R.Prim("int64")'])
def test_an_operand_that_is_no_tensor_is_rejected(kind):
    params = ", ".join([f"{name}: {info}" for name, info in {"s": kind, **OPERANDS}.items()])
    for call in CALLS:
        with pytest.raises(StructInfoError, match=r"found.*R\.(Shape|Tuple|Prim)"):
            parsed(f"y = R.ragged.{call}\nreturn y", params)


SAME_ROWS = (
    *("R.exp(x)", "R.flip(x, axis=1)", "R.nn.softmax(x, axis=1)", "R.sum(x, axis=2)"),
    *("R.add(x, x)", "R.roll(x, 1, axis=2)", "R.concat((x, x), axis=2)", "R.matmul(x, w)"),
)
OTHER_ROWS = (
    *("R.flip(x, axis=0)", "R.roll(x, 1, axis=0)", "R.sort(x, axis=0)", "R.cumsum(x, axis=0)"),
    *("R.gather_elements(x, j, axis=0)", "R.concat((x, x))", "R.tile(x, (2, 1, 1))"),
    *("R.take(x, i, axis=0)", "R.stack((x, x))", "R.permute_dims(x, (1, 0, 2))"),
    *("R.topk(x, axis=0)[0]", "R.strided_slice(x, begin=[1], end=[3], axes=[0])"),
)
OTHERS = """i: R.Tensor((3,), "int64"), j: R.Tensor(({}, 4), "int64"),
    w: R.Tensor((4, 4), "float32")"""


@pytest.mark.parametrize("call", [*SAME_ROWS, *OTHER_ROWS])
def test_a_ragged_axis_has_a_name_only_where_rows_correspond(call: str) -> None:
    """A result has the row lengths of an operand if a change in one row changes this row only."""
    source = f"@R.function\ndef main(x: R.Tensor(({{}}, 4), 'float32'), {OTHERS}):\n"
    source += f"    return {call}\n"
    rows = np.random.default_rng(2).standard_normal((3, 2, 4), dtype="float32")
    dense = structir.parse(source.format("3, 2", "3, 2"))
    others = np.array([2, 0, 1]), np.full((3, 2, 4), 2), np.ones((4, 4), "float32")
    corresponds = True
    for k in range(3):
        changed = rows.copy()
        changed[k] = rows[k] * rows[k] + 1
        first, second = [structir.interpret(dense, "main", x, *others) for x in (rows, changed)]
        same_axes = first.shape[:2] == (3, 2)
        moved = [r for r in range(len(first)) if not np.array_equal(first[r], second[r])]
        corresponds = corresponds and same_axes and moved == [k]
    for module in (
        (ragged := structir.parse(source.format("'n', '*:len'", "'n', '*'"))),
        structir.infer(ragged),
    ):
        assert (
            ("*:len" in str(module["main"].ret_struct_info)) == corresponds == (call in SAME_ROWS)
        )
        assert '"*' in str(module["main"].ret_struct_info)


def test_sizes_that_only_the_lowering_names_are_unknown_to_calls() -> None:
    module = structir.parse("""
@R.function(private=True)
def scaled(x: R.Tensor(("*p", "d"), "float32"), by: R.Tensor(("d",), "float32")):
    return x * by

@R.function
def main(x: R.Tensor(("n", "*"), "float32"), by: R.Tensor(ndim=1, dtype="float32")):
    return cls.scaled(R.ragged.to_padded(x), by)
""")
    rows = [[1.0, 2.0], [3.0]]
    for run in (structir.compile(module)["main"], partial(structir.interpret, module, "main")):
        assert run(rows, np.array([2, 3], "float32")).tolist() == [[2, 6], [6, 0]]
        with pytest.raises(ShapeMismatchError, match="expected d = 3, found 2"):
            run(rows, np.ones(3, "float32"))


@pytest.mark.parametrize(
    "check",
    [
        'R.require("k <= n")',
        "R.match_cast(y, R.Tensor((k,), 'float32'))",
    ],
)
@pytest.mark.parametrize("size", ["n + 1", "3"])
def test_a_check_that_never_holds_fails_where_it_runs(check: str, size: str) -> None:
    module = structir.parse(f"""
@I.ir_module
class Module:
    @R.function
    def f(
        x: R.Tensor(("{size}",), "float32"),
        y: R.Tensor(("n",), "float32"),
    ):
        k = T.int64()
        n = T.int64()
        v = R.match_cast(x, R.Tensor((k,), "float32"))
        {check}
        return R.exp(v)
    @R.function
    def main(r: R.Tensor(("n", "*"), "float32")):
        return R.sum(R.exp(r), axis=1)
""")
    executable = structir.compile(module)
    for rows in (2, 3):
        arguments = [np.ones(n, "float32") for n in (3 if size == "3" else rows + 1, rows)]
        if size == "3" and rows == 3:
            np.testing.assert_allclose(executable["f"](*arguments), np.exp(arguments[0]))
            continue
        with pytest.raises(StructIRError):
            executable["f"](*arguments)


@pytest.mark.parametrize("operands", ["x, y", "y, x, y"])
def test_concat_along_the_first_axis_takes_dense_tensors(operands: str) -> None:
    program = structir.parse(f"""
@R.function
def main(x: R.Tensor(("n", "*", 2), "float32"), y: R.Tensor(("m", "k", 2), "float32")):
    return R.concat(({operands}), axis=0)
""")
    x = structir.RaggedArray(np.arange(6, dtype="float32").reshape(3, 2), np.array([0, 1, 1, 3]))
    y = np.ones((2, 3, 2), "float32")
    rows = {"x": x.to_list(), "y": y.tolist()}
    expected = [row for name in operands.split(", ") for row in rows[name]]
    for run in (partial(structir.interpret, program, "main"), structir.compile(program)["main"]):
        assert run(x, y).to_list() == expected


def test_a_cast_to_sizes_of_values_before_it_defines_no_sizes():
    params = ", ".join([f'{x}: R.Tensor(("n", "*", "k"), "float64")' for x in "xz"])
    body = "a = R.add(z, x)\nb = R.sum(a, axis=-1)\nc = R.sum(R.concat((z, x), axis=0), axis=1)"
    body += "\ns = R.sum(a, axis=1)\nreturn (b, c, s)"
    module, x = parsed(body, params), rows()
    for actual, expected in zip(
        structir.compile(module, num_threads=1)(x, x),
        structir.interpret(module, "main", x, x),
        strict=True,
    ):
        actual, expected = [getattr(y, "values", y) for y in (actual, expected)]
        np.testing.assert_allclose(actual, expected)


RESULTS = {
    "split": ("R.split(x, 2, axis=2)", lambda v: np.split(v, 2, 1)),
    "split at": ("R.split(x, [1, 3], axis=-1)", lambda v: np.split(v, [1, 3], 1)),
    "top k": (
        "R.topk(x, k=2, axis=2)",
        lambda v: [-np.sort(-v, 1)[:, :2], np.argsort(-v, 1, kind="stable")[:, :2]],
    ),
}


@pytest.mark.parametrize("name", RESULTS)
def test_ops_with_several_results_over_the_axes_behind_the_ragged_one(name):
    body, expected = RESULTS[name]
    text = f'@R.function\ndef main(x: R.Tensor(("n", "*", 4), "float32")):\n    y = {body}\n'
    module = structir.parse(f"{text}    return (y, R.sum(y[0], axis=1), R.abs(y[1]))\n")
    x = RaggedArray(np.random.default_rng(0).standard_normal((9, 4), "float32"), [0, 4, 4, 9])
    for run in (
        lambda: structir.interpret(module, "main", x),
        lambda: structir.compile(module)["main"](x),
    ):
        results, total, last = run()
        values = expected(x.values)
        for result, each in zip(results, values, strict=True):
            assert result.offsets.tolist() == x.offsets.tolist()
            np.testing.assert_array_equal(result.values, each)
        np.testing.assert_allclose(total[2], values[0][4:].sum(0), 1e-6)
        np.testing.assert_allclose(last.values, np.abs(values[1]), 1e-6)


FORMS_OF_ROWS = {
    **{f"{f} of values": f"R.{f}(x)" for f in ("sum", "mean", "max", "prod", "std", "nn.softmax")},
    "sum": "R.sum(x, axis=1)",
    "values of it": "R.ragged.values(x)",
    "row starts of it": "R.ragged.row_starts(x)",
    "row limits of it": "R.ragged.row_limits(x)",
    "values": "R.ragged.values(R.exp(x))",
    "softmax of values": "R.ragged.values(R.nn.softmax(x, axis=1))",
    "cumsum": "R.ragged.values(R.cumsum(x, axis=1))",
    "flip": "R.ragged.values(R.flip(x, axis=1))",
    "map": "R.map(lambda row: R.max(row), x)",
    "concat": "R.sum(R.concat([x, x], axis=1), axis=1)",
    "append": "R.sum(R.concat([x, x], axis=0), axis=1)",
    "padded": "R.ragged.to_padded(x)",
    "rows": "R.exp(x)",
}
ENDS = [  # of rows of 9 values: in order or not, and whether they are contiguous
    ([0, 4, 4], [4, 4, 9], True),
    ([0, 0, 9], [0, 9, 9], True),
    ([1, 4], [4, 9], False),
    ([0, 4], [4, 8], False),
    ([0, 5], [4, 9], False),
    ([0, 3], [4, 9], False),
    ([4, 0], [9, 4], False),
    ([0, 6, 4], [6, 4, 9], False),
    ([-1, 4], [4, 9], False),
    ([0, 4], [4, 12], False),
    ([], [], False),
]


@pytest.mark.parametrize("name", FORMS_OF_ROWS)
def test_rows_of_from_values_are_all_values_in_order(name: str) -> None:
    """Other rows are an error of every use, compiled and interpreted: values between rows would be
    part of sums, and of gradients."""
    module = structir.parse(f"""
@R.function
def main(v: R.Tensor(("t",), "float64"), s: R.Tensor(("n",), "int64"),
         l: R.Tensor(("n",), "int64")):
    x = R.ragged.from_values(v, s, l)
    return {FORMS_OF_ROWS[name]}
""")
    executable = structir.compile(module)["main"]
    values = np.random.default_rng(0).standard_normal(9)
    for starts, limits, is_contiguous in ENDS:
        ends = np.array(starts, "int64"), np.array(limits, "int64")
        results = []
        for run in (executable, lambda *args: structir.interpret(module, "main", *args)):
            try:
                results.append(run(values, *ends))
            except ShapeMismatchError as error:
                assert error.code == "E0731"
                assert "expected " in str(error)
                assert "\nhelp: " in str(error)
                assert "contiguous_rows" not in str(error)
        assert len(results) == 2 * is_contiguous, (starts, limits)
        for result in results[1:]:
            np.testing.assert_allclose(
                *[getattr(each, "values", each) for each in (result, results[0])], rtol=1e-12
            )


@pytest.mark.parametrize("axes", ('"t",', '"t", 1', '"t", 4', '"t", "d"', '"t", 2, "d"'))
def test_rows_of_values_with_further_axes_are_checked_in_compiled_code(axes: str) -> None:
    module = structir.parse(f"""
@R.function
def main(v: R.Tensor(({axes}), "float32"), s: R.Tensor(("n",), "int64"),
         l: R.Tensor(("n",), "int64")):
    return R.sum(R.ragged.from_values(v, s, l), axis=1)
""")
    executable = structir.compile(module)
    shape = {'"t",': (5,), '"t", 1': (5, 1), '"t", 2, "d"': (5, 2, 3)}.get(axes, (5, 4))
    values, limits = np.ones(shape, "float32"), np.array([2, 5])
    result = executable["main"](values, np.array([0, 2]), limits)
    np.testing.assert_array_equal(result, [values[:2].sum(0), values[2:].sum(0)])
    assert "fallback" not in str(executable.profile(values, np.array([0, 2]), limits))
    with pytest.raises(ShapeMismatchError, match=r"^ragged\.from_values at .*E0731"):
        executable["main"](values, np.array([0, 3]), limits)


OVERLAPPING = {
    "concat": "R.sum(R.concat([x, x], axis=1), axis=1)",
    "append": "R.sum(R.concat([z, z], axis=1), axis=1)",
    "softmax": "R.sum(R.nn.softmax(x, axis=1), axis=1)",
    "centred": "R.max(R.subtract(x, R.max(x, axis=1, keepdims=True)), axis=1)",
    "cumsum": "R.sum(R.cumsum(x, axis=1), axis=1)",
    "flip": "R.sum(R.flip(x, axis=1), axis=1)",
    "variance": "R.variance(x, axis=1)",
    "of a scan": "R.map(row, x)",
    "argmax": "R.astype(R.argmax(x, axis=1), dtype='float64')",
    "sum": "R.sum(x, axis=1)",
    "max": "R.max(R.exp(x), axis=1)",
    "padded": "R.sum(R.ragged.to_padded(x), axis=[1])",
}


@pytest.mark.parametrize("name", OVERLAPPING)
def test_rows_of_from_values_that_overlap_are_right_or_an_error(name: str) -> None:
    """The rows of one tensor have the results of separate rows of the same elements, or E0731."""
    module = structir.parse(f"""
@R.function
def row(t: R.Tensor(("m",), "float64")):
    return R.max(R.cumsum(t, axis=0))

@R.function
def main(v: R.Tensor(("t",), "float64"), s: R.Tensor(("n",), "int64"),
         l: R.Tensor(("n",), "int64")):
    x = R.ragged.from_values(v, s, l)
    z = R.concat([x, x], axis=0)
    return {OVERLAPPING[name]}
""")
    executable = structir.compile(module)["main"]
    rng, v = np.random.default_rng(0), np.random.default_rng(1).standard_normal(12)
    errors = [0, 0]  # of compiled code and of the interpreter
    for _ in range(6):
        starts, limits = np.sort(rng.integers(0, 13, (2, 3)), axis=0)
        limits = np.maximum(
            limits, starts + (name in ("max", "argmax", "centred", "variance", "of a scan"))
        )
        limits, starts = np.minimum(limits, 12), np.minimum(starts, 11)
        rows = [v[first:last] for first, last in zip(starts, limits, strict=True)]
        apart = np.concatenate(rows)
        ends = np.cumsum([len(row) for row in rows])
        expected = executable(apart, ends - [len(row) for row in rows], ends)
        runs = (executable, lambda *args: structir.interpret(module, "main", *args))
        for k, run in enumerate(runs):
            try:
                results = run(v, starts, limits)
            except ShapeMismatchError as error:
                assert error.code == "E0731"
                errors[k] += 1
            else:
                np.testing.assert_allclose(results, expected, atol=1e-12)
    assert errors[0] == errors[1] > 0


@pytest.mark.parametrize("ends", ([-1, 4], [2, 9], [3, 2]))
def test_rows_of_from_values_outside_of_the_values_are_errors(ends: list[int]) -> None:
    module = structir.parse("""
@R.function
def main(v: R.Tensor(("t",), "float64"), s: R.Tensor(("n",), "int64"),
         l: R.Tensor(("n",), "int64")):
    x = R.ragged.from_values(v, s, l)
    return R.sum(R.concat([x, x], axis=1), axis=1)
""")
    args = np.ones(6), np.array(ends[:1]), np.array(ends[1:])
    for run in (
        structir.compile(module)["main"],
        lambda *args: structir.interpret(module, "main", *args),
    ):
        with pytest.raises(ShapeMismatchError, match="E0731"):
            run(*args)


@pytest.mark.parametrize(
    ("shape", "edited"),
    (
        ('("*",)', ('("*s",)', '("n", "*")')),
        ('("*:len",)', ('("*s",)', '("n", "*")')),
        ('("*", 4)', ('("n", "*", 4)', '("*s", 4)')),
        ('("n", "*", "*")', ('("n", "*", 4)',)),
        ('("*s", "*")', ('("n", "*", 4)',)),
    ),
)
def test_axes_without_a_run_time_form_have_help_that_is_an_edit(
    shape: str, edited: tuple[str, ...]
) -> None:
    text = '@R.function\ndef main(t: R.Tensor({}, "float32")):\n    return R.exp(t)\n'
    with pytest.raises(StructInfoError, match="E0218") as error:
        structir.compile(structir.parse(text.format(shape)))
    for each in edited:
        assert f"`{each}`" in str(error.value)
        structir.compile(structir.parse(text.format(each)))


BUILT = "R.ragged.from_values(v, s, l)"
PASSED_ON = {
    "a branch": f"if c:\n    x = {BUILT}\nelse:\n    x = {BUILT}\nreturn R.ragged.{{part}}(x)",
    "a result": "x = cls.build(v, s, l)\nreturn R.ragged.{part}(x)",
    "an argument": f"x = {BUILT}\nreturn cls.{{part}}(x)",
    "another name": f"x = {BUILT}\ny = x\nreturn R.ragged.{{part}}(y)",
    "a field": f"x = ({BUILT}, v)\nreturn R.ragged.{{part}}(x[0])",
    "a sum of a result": "x = R.exp(cls.build(v, s, l))\nreturn R.ragged.{part}(x)",
}


@pytest.mark.parametrize("part", ("values", "row_starts", "row_lengths"))
@pytest.mark.parametrize("name", PASSED_ON)
def test_rows_of_from_values_are_checked_where_they_are_passed_on(name: str, part: str) -> None:
    parts = 'v: R.Tensor(("t",), "float32"), s: R.Tensor(("n",), "int64"), '
    parts += 'l: R.Tensor(("n",), "int64")'
    body = PASSED_ON[name].format(part=part).replace("\n", "\n        ")
    module = structir.parse(f"""
@I.ir_module
class Module:
    @R.function
    def build({parts}):
        return {BUILT}

    @R.function
    def {part}(x: R.Tensor(("n", "*"), "float32")):
        return R.ragged.{part}(x)

    @R.function
    def main({parts}, c: R.Tensor((), "bool")):
        {body}
""")
    compiled, values = structir.compile(module)["main"], np.ones(9, "float32")
    for run in (compiled, partial(structir.interpret, module, "main")):
        for starts, limits, is_contiguous in ENDS[:-1]:
            args = values, np.array(starts), np.array(limits), np.array(True)
            if is_contiguous:
                assert run(*args).shape == ((9,) if part == "values" else (3,))
            else:
                with pytest.raises(ShapeMismatchError, match="E0731"):
                    run(*args)


@pytest.mark.parametrize("part", ("values", "row_starts", "row_limits"))
@pytest.mark.parametrize(
    ("values", "limits"),
    [("v", "other"), ("R.reshape(v, (t // 3, 3))", "l")],
    ids=["limits", "values"],
)
def test_rows_are_checked_with_their_own_limits_and_values(
    values: str, limits: str, part: str
) -> None:
    """`contiguous_rows` checks row starts with other ones."""
    module = structir.parse(f"""
@R.function
def main(
    v: R.Tensor(("t",), "float32"),
    s: R.Tensor(("n",), "int64"),
    l: R.Tensor(("n",), "int64"),
    other: R.Tensor(("n",), "int64"),
):
    t = T.int64()
    rows = R.ragged.contiguous_rows(s, {limits}, v)
    x = R.ragged.from_values({values}, rows, l)
    return R.ragged.{part}(x)
""")
    wrong = np.array([5, 50] if limits == "other" else [3, 9])
    args = np.ones(9, "float32"), np.array([0, 3]), wrong, np.array([3, 9])
    for run in (structir.compile(module)["main"], partial(structir.interpret, module, "main")):
        with pytest.raises(ShapeMismatchError, match="E0731"):
            run(*args)
