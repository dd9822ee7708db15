"""Programs use values of Python by name; nothing of the text or of the values is executed."""

import gc
import math
from types import SimpleNamespace
from typing import Any, NamedTuple

import attrs
import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError
from structir.ir import StructInfo, struct_info
from structir.ir.dims import Dim
from structir.ir.struct_info import KINDS
from structir.script import I, R, T


@attrs.frozen
class Config:
    hidden: int = 8
    scale: float = 0.5


class Sizes(NamedTuple):
    rows: int
    columns: int


SCALE, HIDDEN, SHAPE, AXES = 0.5, 8, (4, 2), [0, 1]
DTYPE = np.float32
WEIGHT = np.arange(32, dtype="float32").reshape(4, 8)
CONFIG, SIZES, TABLE = Config(), Sizes(4, 2), {"hidden": 8, "axes": [1]}
NAMESPACE = SimpleNamespace(hidden=8)
MATRIX = R.Tensor(("n", 4), "float32")
relu = R.nn.relu
FLAG, KIND = True, "INT8_T"

# an expression that names values, and the same one with literals
PAIRS = [
    ("R.multiply(x, SCALE)", "R.multiply(x, 0.5)"),
    ("R.multiply(x, CONFIG.scale)", "R.multiply(x, 0.5)"),
    ("R.zeros((n, HIDDEN), 'int8')", "R.zeros((n, 8), 'int8')"),
    ("R.zeros((n * HIDDEN + 1,), 'int8')", "R.zeros((n * 8 + 1,), 'int8')"),
    ("R.zeros((n, CONFIG.hidden), 'int8')", "R.zeros((n, 8), 'int8')"),
    ("R.zeros((n, TABLE['hidden']), 'int8')", "R.zeros((n, 8), 'int8')"),
    ("R.zeros((n, NAMESPACE.hidden), 'int8')", "R.zeros((n, 8), 'int8')"),
    ("R.zeros((SIZES.rows, SIZES[1]), 'int8')", "R.zeros((4, 2), 'int8')"),
    ("R.zeros((SHAPE[-1], SHAPE[0]), 'int8')", "R.zeros((2, 4), 'int8')"),
    ("R.zeros(SHAPE, 'int8')", "R.zeros((4, 2), 'int8')"),
    ("R.zeros(SHAPE, DTYPE)", "R.zeros((4, 2), 'float32')"),
    ("R.astype(x, dtype=DTYPE)", "R.astype(x, dtype='float32')"),
    ("R.sum(x, axis=AXES, keepdims=FLAG)", "R.sum(x, axis=[0, 1], keepdims=True)"),
    ("R.sum(x, axis=TABLE['axes'])", "R.sum(x, axis=[1])"),
    ("relu(relu(x))", "R.nn.relu(R.nn.relu(x))"),
    ("R.zeros([*AXES, *SHAPE[:1], 2], 'int8')", "R.zeros((0, 1, 4, 2), 'int8')"),
    ("R.zeros(R.shape([*SHAPE, 2]), 'int8')", "R.zeros((4, 2, 2), 'int8')"),
    ("R.zeros(R.shape(list(SHAPE)), 'int8')", "R.zeros((4, 2), 'int8')"),
    ("R.zeros((SIZES.rows,) * SIZES.columns, 'int8')", "R.zeros((4, 4), 'int8')"),
    ("R.zeros((max(SHAPE), sum(AXES)), 'int8')", "R.zeros((4, 1), 'int8')"),
    ("R.multiply(x, math.sqrt(CONFIG.hidden * 2))", "R.multiply(x, 4.0)"),
    (
        "R.multiply(x, R.const(1 / math.prod(SHAPE), DTYPE))",
        "R.multiply(x, R.const(0.125, 'float32'))",
    ),
    ("R.add(x, R.const(np.ones(4, DTYPE)))", "R.add(x, R.const([1, 1, 1, 1], 'float32'))"),
    ("R.add(x, R.const(np.arange(4).astype(DTYPE)))", "R.add(x, R.const([0, 1, 2, 3], 'float32'))"),
    (
        "R.add(x, R.const(np.array([1, 2, 3, 4]), DTYPE))",
        "R.add(x, R.const([1, 2, 3, 4], 'float32'))",
    ),
    (
        "R.matmul(x, R.const(WEIGHT[:, :1]))",
        "R.matmul(x, R.const([[0], [8], [16], [24]], 'float32'))",
    ),
    ("R.exp(x) if False else R.sin(x)", "R.sin(x)"),
    ("R.astype(x, KIND.lower().removesuffix('_T'.lower()))", "R.astype(x, 'int8')"),
    ("R.exp(x) if KIND.startswith('INT') else R.sin(x)", "R.exp(x)"),
    ("R.astype(x, KIND.replace('INT8_T', 'float16'))", "R.astype(x, 'float16')"),
    ("R.matmul(x, R.full((4, HIDDEN), R.const(SCALE), DTYPE))", None),
]
PAIRS[-1] = (PAIRS[-1][0], "R.matmul(x, R.full((4, 8), R.const(0.5), 'float32'))")
VALUES = {name: value for name, value in globals().items() if name.isupper() or name == "relu"}
VALUES |= {"math": math, "np": np}
HEADER = "@R.function\ndef main(x: {info}):\n    n = T.int64()\n    return {value}\n"


def parsed(value, info="R.Tensor(('n', 4), 'float32')", **constants: Any):
    return structir.parse(HEADER.format(value=value, info=info), constants=constants)


@pytest.mark.parametrize(("named", "literal"), PAIRS)
def test_a_named_value_is_a_literal(named, literal):
    module = parsed(named, **VALUES)
    assert structir.structural_equal(module, parsed(literal))
    assert structir.structural_equal(structir.parse(module.script()), module)


@pytest.mark.parametrize(
    ("named", "literal"),
    [
        ("MATRIX", "R.Tensor(('n', 4), 'float32')"),
        ("R.Tensor(('n', HIDDEN), DTYPE)", "R.Tensor(('n', 8), 'float32')"),
        ("R.Tensor(SHAPE, 'float32')", "R.Tensor((4, 2), 'float32')"),
        ("R.Tuple(MATRIX, MATRIX)", None),
    ],
)
def test_annotations_name_values(named, literal):
    literal = literal or "R.Tuple(R.Tensor(('n', 4), 'float32'), R.Tensor(('n', 4), 'float32'))"
    assert structir.structural_equal(parsed("x", named, **VALUES), parsed("x", literal))


def test_a_captured_subclass_of_struct_info_is_an_annotation():
    @struct_info
    class StripedStructInfo(StructInfo):
        """A matrix of equal rows."""

        rows: Dim
        dtype: str | None = None

    values = {"Striped": StripedStructInfo, "INFOS": {"striped": StripedStructInfo}}
    try:
        literal = parsed("x", "R.Striped(rows='n', dtype='int8')")
        for name in ("Striped", "INFOS['striped']"):
            named = parsed("x", f"{name}(rows='n', dtype='int8')", **values)
            assert structir.structural_equal(named, literal)
    finally:
        del KINDS["Striped"]


@pytest.mark.parametrize("info", ["MATRIX", "(MATRIX,)", "INFOS[0]"])
def test_a_captured_info_is_that_of_a_result(info):
    named = parsed(f"R.call_pure_packed('f', x, sinfo_args={info})", MATRIX=MATRIX, INFOS=[MATRIX])
    literal = "R.call_pure_packed('f', x, sinfo_args=R.Tensor((n, 4), 'float32'))"
    assert structir.structural_equal(named, parsed(literal))


def test_an_array_is_a_constant():
    module = parsed("R.matmul(x, WEIGHT)", WEIGHT=WEIGHT)
    x = np.ones((3, 4), "float32")
    np.testing.assert_allclose(structir.compile(module)["main"](x), x @ WEIGHT)
    assert structir.structural_equal(structir.parse(module.script()), module)


@pytest.mark.parametrize(
    "layout", [lambda a: a, np.transpose, lambda a: a[::2], lambda a: a[:, 1:900]]
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool"])
def test_a_large_array_is_a_constant_without_a_copy(dtype, layout):
    array = layout(np.random.default_rng(0).integers(0, 9, (512, 1024)).astype(dtype))
    module = parsed("(W, W)", W=array)
    first, second = module["main"].body.body.fields
    assert first is second and np.shares_memory(first.data, array)
    assert not first.data.flags.writeable and array.flags.writeable
    np.testing.assert_array_equal(first.data, array)
    small = parsed("W", W=array[:3, :3])["main"].body.body
    assert not np.shares_memory(small.data, array)


def test_a_text_is_parsed_again_with_the_constants_that_it_was_parsed_with():
    weights = {"layers": [{"w": np.arange(float(32 + k)).reshape(1, -1)} for k in range(3)]}
    text = "@R.function\ndef main():\n    return [p['w'] for p in weights['layers']]\n"
    module = structir.parse(text, constants={"weights": weights})
    printed = module.script()
    again = {"any": [np.array(layer["w"]) for layer in weights["layers"]], "other": [weights]}
    del module, weights
    gc.collect()
    with pytest.raises(DiagnosticError, match="missing constant"):
        structir.parse(printed, constants={"w": np.zeros((1, 32))})
    assert "constants={" in printed
    module = structir.parse(printed, constants=again)
    assert [c.data.shape for c in module["main"].body.body.fields] == [(1, 32), (1, 33), (1, 34)]
    assert module.script() == printed


def test_a_decorated_function_names_globals_and_variables_around_it():
    scale, rows = 0.25, T.dynamic("rows")

    @R.function
    def main(x: R.Tensor((rows, HIDDEN), DTYPE)):
        y = R.reshape(x, (rows * HIDDEN,))
        return relu(R.multiply(y, scale))

    assert main.params[0].struct_info.dims[1] == 8
    x = -np.ones((2, 8), "float32")
    result = structir.interpret(structir.ir.IRModule({"main": main}), "main", x)
    np.testing.assert_array_equal(result, np.zeros(16, "float32"))


def test_a_class_and_its_kernels_name_globals():
    @I.ir_module
    class Module:
        @I.kernel
        def scaled(x: R.Tensor(("n",), "float32"), out: R.Tensor(("n",), "float32")):
            for i in range(n):
                out[i] = x[i] * SCALE + HIDDEN

        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            n = T.int64()
            return R.call_kernel(cls.scaled, (x,), out_sinfo=R.Tensor((n,), "float32"))

    x = np.ones(3, "float32")
    np.testing.assert_array_equal(structir.compile(Module)["main"](x), x * 0.5 + 8)


def test_kernels_name_items_and_fields_and_resolve_conditions():
    tables = {"scale": 3.0, "offsets": [0.5, 1.5]}

    @I.kernel
    def scaled(x: R.Tensor((CONFIG.hidden,), "float32"), out: R.Tensor((8,), "float32")):
        for i in range(CONFIG.hidden):
            if FLAG and CONFIG.scale < 1.0:
                out[i] = x[i] * tables["scale"] + tables["offsets"][SIZES.columns - 1]
            else:
                out[i] = nothing[i]
            if i == SIZES.rows:
                out[i] = NAMESPACE.hidden * CONFIG.scale

    module = structir.ir.IRModule({"scaled": scaled})
    assert structir.structural_equal(structir.parse(module.script()), module)

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((8,), "float32")):
            return R.call_kernel(scaled, (x,), out_sinfo=R.Tensor((8,), "float32"))

    expected = np.full(8, 4.5, "float32")
    expected[4] = 4.0
    result = structir.compile(Module)["main"](np.ones(8, "float32"))
    np.testing.assert_array_equal(result, expected)


def test_names_of_the_program_come_first():
    module = parsed("R.add(x, x)", x=3.0)
    assert structir.structural_equal(module, parsed("R.add(x, x)"))


class Trap:
    """An object whose fields run code."""

    @property
    def size(self):
        raise AssertionError("executed")

    def __getattr__(self, name):
        raise AssertionError("executed")

    def __eq__(self, other):
        raise AssertionError("executed")

    __hash__ = None

    @property
    def __class__(self):
        raise AssertionError("executed")

    def __getitem__(self, key):
        raise AssertionError("executed")


@pytest.mark.parametrize("value", ["V.size", "V.other", "V['a']", "V[0]", "V", "V()", "V.size()"])
def test_no_code_of_a_value_runs(value):
    with pytest.raises(DiagnosticError):
        parsed(f"R.multiply(x, {value})", V=Trap())


def test_a_variable_that_is_assigned_later_has_no_value():
    with pytest.raises(DiagnosticError, match="`axis` is not defined"):

        @R.function
        def main(x: R.Tensor((3, 4), "float32")):
            return R.sum(x, axis=axis)

    axis = 1


class Traced(np.ndarray):
    @property
    def dtype(self):
        raise AssertionError("executed")


@pytest.mark.parametrize("value", [np.ma.array([1.0]), np.ones(2).view(Traced)], ids=type)
def test_subclasses_of_arrays_have_no_counterpart(value):
    with pytest.raises(DiagnosticError) as caught:
        parsed("R.multiply(x, V)", V=value)
    assert caught.value.diagnostics[0].code == "E0111"


@pytest.mark.parametrize("value", [{1, 2}, object(), len, [object()], np.array(["a"]), 1j])
def test_a_value_without_counterpart_is_one_error(value):
    with pytest.raises(DiagnosticError) as caught:
        parsed("R.multiply(x, V)", V=value)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "E0111" and diagnostic.hint


def test_a_text_that_imports_math_and_numpy_may_call_their_functions():
    text = "import math\nimport numpy as np\n" + HEADER.format(
        info='R.Tensor(("n", 4), "float32")',
        value="R.add(x, R.const(np.full((4,), math.sqrt(4.0)), 'float32'))",
    )
    result = structir.interpret(structir.parse(text), "main", np.zeros((1, 4), "float32"))
    np.testing.assert_array_equal(result, [[2, 2, 2, 2]])


@pytest.mark.parametrize(
    "value", ["np.zeros((2**20, 2**20))", "np.zeros(-1)", "math.sqrt(-1)", "np.ones('a')"]
)
def test_a_call_that_python_rejects_is_one_error(value):
    text = "import math\nimport numpy as np\n" + HEADER.format(
        info='R.Tensor(("n", 4), "float32")', value=f"R.add(x, R.const({value}))"
    )
    with pytest.raises(DiagnosticError, match="cannot evaluate"):
        structir.parse(text)


def test_only_functions_of_math_and_numpy_are_evaluated():
    text = "import numpy as np\n" + HEADER.format(
        info='R.Tensor(("n", 4), "float32")', value="R.add(x, R.const(np.load('x.npy')))"
    )
    with pytest.raises(DiagnosticError):
        structir.parse(text)
