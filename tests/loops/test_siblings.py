"""Maps of the same elements that read a common operand are one kernel: structure, and bits."""

import os
import subprocess
import sys
from random import Random

import ml_dtypes
import numpy as np
import pytest

import structir
from structir.ir import IRModule
from structir.loops.fusion.group import FusionState
from structir.loops.fusion.siblings import MOST_STREAMS
from structir.targets.cpu.features import has_wide_vectors
from tests.runtime.agreement import assert_agree


def parsed(params: dict[str, str], *lines: str) -> IRModule:
    head = ", ".join(f"{name}: R.Tensor({info})" for name, info in params.items())
    body = "\n    ".join(lines)
    return structir.infer(structir.parse(f"@R.function\ndef main({head}):\n    {body}\n"))


def kernels(module: IRModule, name: str = "main") -> list[list[str]]:
    """The ops of each kernel of a function."""
    sections = structir.compile(module).source(name).split("# kernel ")[1:]
    return [
        [line.split()[1] for line in section.splitlines() if line.startswith("# R.")]
        for section in sections
    ]


def random_values(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    values = np.asarray(rng.normal(size=shape) * 3)
    values = np.abs(values) if dtype.startswith("uint") else values
    return values.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def flat(value: object) -> list[np.ndarray]:
    items = value if isinstance(value, tuple | list) else None
    return [np.asarray(value)] if items is None else [array for v in items for array in flat(v)]


def check(module: IRModule, arguments: list) -> None:
    """Results agree with the interpreter."""
    with np.errstate(all="ignore"):
        expected = structir.interpret(module, "main", *arguments)
    assert_agree(expected, structir.compile(module)["main"](*arguments))


def check_bits(module: IRModule, arguments: list) -> None:
    """Results have the bits of separate kernels."""
    fused = structir.compile(module)["main"](*arguments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FusionState, "join_siblings", lambda state: None)
        separate = structir.compile(module)["main"](*arguments)
    for one, other in zip(flat(fused), flat(separate), strict=True):
        assert one.dtype == other.dtype and one.tobytes() == other.tobytes()


ROW, MATRIX = '("k",), "float32"', '("n", "k"), "float32"'
PAIR = {"x": MATRIX, "y": MATRIX}

FUSED: dict[str, tuple[dict[str, str], list[str]]] = {
    "two": (PAIR, ["a = R.multiply(x, y)", "b = R.add(x, 1.0)", "return a, b"]),
    "four": (
        {"x": ROW},
        [*[f"a{i} = R.multiply(x, {i}.5)" for i in range(4)], "return a0, a1, a2, a3"],
    ),
    "chains": (
        PAIR,
        [
            "a = R.multiply(x, 2.0)",
            "b = R.subtract(x, y)",
            "c = R.add(a, y)",
            "d = R.nn.relu(R.multiply(b, y))",
            "return a, c, d",
        ],
    ),
    "a row": (
        {**PAIR, "b": ROW},
        ["c = R.add(x, b)", "d = R.multiply(R.subtract(x, y), b)", "return c, d"],
    ),
    "halves": (
        {"x": '("n", 16), "float32"', "y": '("n", 8), "float32"'},
        [
            "s = R.split(x, 2, axis=1)",
            "a = R.multiply(s[0], s[1])",
            "b = R.subtract(s[0], R.multiply(y, s[1]))",
            "return a, b",
        ],
    ),
    "a comparison": (PAIR, ["a = R.nn.relu(x)", "b = R.greater(x, y)", "return a, b"]),
    "a narrow result": (PAIR, ["a = R.add(x, y)", 'b = R.astype(x, "float16")', "return a, b"]),
    "two widths of known sizes": (
        {"x": '(4, 8), "float32"'},
        ["a = R.add(x, 1.0)", 'b = R.astype(x, "float64")', "return a, b"],
    ),
    "scalars": (
        {"t": '(), "float32"'},
        ["a = R.subtract(1.0, R.exp(t))", "b = R.subtract(1.0, R.log(t))", "return a, b"],
    ),
    "inside": (
        PAIR,
        [
            "t = R.cumsum(x, axis=0)",
            "a = R.multiply(t, 2.0)",
            "b = R.subtract(t, y)",
            "return R.cumsum(a, axis=0), R.cumsum(b, axis=0)",
        ],
    ),
    "moments": (
        {"m": ROW, "v": ROW, "g": ROW},
        [
            "m1 = R.add(R.multiply(m, 0.9), R.multiply(g, 0.1))",
            "v1 = R.add(R.multiply(v, 0.99), R.multiply(R.multiply(g, g), 0.01))",
            "return m1, v1",
        ],
    ),
}
SEPARATE: dict[str, tuple[dict[str, str], list[str]]] = {
    "only a row is common": (
        {**PAIR, "b": ROW},
        ["c = R.add(x, b)", "d = R.multiply(y, b)", "return c, d"],
    ),
    "nothing is common": (PAIR, ["a = R.add(x, 1.0)", "b = R.add(y, 1.0)", "return a, b"]),
    "a transposition": (
        {"x": '("n", "n"), "float32"'},
        ["a = R.permute_dims(x, [1, 0])", "b = R.multiply(x, 2.0)", "return a, b"],
    ),
    "steps": (
        {"x": '("n", 2, "k"), "float32"'},
        [
            "a = R.multiply(R.permute_dims(x, [0, 2, 1]), 2.0)",
            "b = R.add(R.permute_dims(x, [0, 2, 1]), 2.0)",
            "return a, b",
        ],
    ),
    "another index space": (
        {"x": ROW, "y": MATRIX},
        ["a = R.add(x, 1.0)", "b = R.multiply(y, x)", "return a, b"],
    ),
    "a shorter inner loop": (
        {**PAIR, "b": ROW},
        ["c = R.add(x, b)", "d = R.multiply(x, y)", "return c, d"],
    ),
    "an op between": (
        {"x": ROW},
        ["a = R.add(x, 1.0)", "b = R.cumsum(a)", "c = R.multiply(x, b)", "return a, b, c"],
    ),
    "a reader between": (
        {"x": ROW, "y": ROW},
        ["a = R.add(x, y)", "b = R.cumsum(a)", "c = R.multiply(x, y)", "return b, c"],
    ),
    "two widths": (PAIR, ["a = R.add(x, 1.0)", 'b = R.astype(x, "float64")', "return a, b"]),
    "two functions": (PAIR, ["a = R.exp(x)", "b = R.log(x)", "return a, b"]),
}


def values_for(module: IRModule, rng: np.random.Generator, **sizes: int) -> list[np.ndarray]:
    """Random arguments of `main`, at sizes of its dims."""
    infos = [param.struct_info for param in module["main"].params]
    shapes = [[sizes[str(d)] if str(d) in sizes else int(d) for d in i.dims] for i in infos]
    return [random_values(rng, i.dtype, tuple(s)) for i, s in zip(infos, shapes, strict=True)]


def maps(module: IRModule) -> int:
    """The number of kernels without a scan."""
    return sum("R.cumsum" not in ops for ops in kernels(module))


@pytest.mark.parametrize("name", FUSED)
def test_siblings_are_one_kernel(name: str) -> None:
    params, lines = FUSED[name]
    module, rng = parsed(params, *lines), np.random.default_rng(0)
    assert maps(module) == 1
    for n, k in ((1, 1), (5, 37), (40, 1000)):
        check(module, values_for(module, rng, n=n, k=k))


@pytest.mark.parametrize("name", SEPARATE)
def test_siblings_that_save_no_traffic_stay_separate(name: str) -> None:
    params, lines = SEPARATE[name]
    assert maps(parsed(params, *lines)) == 2


@pytest.mark.parametrize(
    ("function", "count"), [("exp", 1 if has_wide_vectors() else 2), ("negative", 1)]
)
def test_one_sibling_may_call_functions(function: str, count: int) -> None:
    module = parsed(PAIR, f"a = R.{function}(x)", "b = R.multiply(x, y)", "return a, b")
    assert maps(module) == count


@pytest.mark.parametrize("more", [0, 1])
def test_one_kernel_has_few_arrays(more: int) -> None:
    names = [f"x{i}" for i in range(MOST_STREAMS - 2 + more)]
    half = len(names) // 2
    params = dict.fromkeys(names, ROW)
    first = [f"a{i} = R.add({'x0' if i == 1 else f'a{i - 1}'}, x{i})" for i in range(1, half)]
    second = [
        f"b{i} = R.add({'x0' if i == half else f'b{i - 1}'}, x{i})" for i in range(half, len(names))
    ]
    result = f"return a{half - 1}, b{len(names) - 1}"
    assert maps(parsed(params, *first, *second, result)) == 1 + more


@pytest.mark.parametrize(
    "dtype", ["float64", "float16", "bfloat16", "int8", "int32", "int64", "uint8"]
)
def test_dtypes(dtype: str) -> None:
    module = parsed(
        {"x": f'("n", "k"), "{dtype}"', "y": f'("n", "k"), "{dtype}"'},
        "a = R.multiply(x, y)",
        "b = R.add(R.multiply(x, x), y)",
        "c = R.subtract(x, y)",
        "return a, b, c",
    )
    assert maps(module) == 1
    check(module, values_for(module, np.random.default_rng(1), n=7, k=33))


# ---- steps of scans


PAIRS = """
@R.function(private=True)
def compose(f, g):
    a, b = f
    c, d = g
    return (R.multiply(a, c), R.add(R.multiply(b, c), d))

@R.function
def main(x: R.Tensor(("n", "k"), "float32"), y: R.Tensor(("n", "k"), "float32"),
         i: R.Tensor(("k",), "float32"), j: R.Tensor(("k",), "float32")):
    return R.reduce(compose, (i, j), (x, y))
"""


def test_a_step_with_several_carried_values_is_one_kernel() -> None:
    module = structir.infer(structir.parse(PAIRS))
    assert kernels(module, "compose_step") == [["R.multiply", "R.multiply", "R.add"]]
    rng = np.random.default_rng(2)
    for n, k in ((0, 3), (1, 1), (6, 100)):
        check(module, [a * 0.2 for a in values_for(module, rng, n=n, k=k)])


# ---- memory of inputs


def test_results_in_the_memory_of_inputs_stay_there() -> None:
    params, lines = FUSED["moments"]
    module = parsed(params, 'R.func_attr({"donated": {"m": 0, "v": 1}})', *lines)
    rng = np.random.default_rng(3)
    m, v, g = values_for(module, rng, k=100)
    expected = structir.interpret(module, "main", m.copy(), v.copy(), g)
    places = [m.ctypes.data, v.ctypes.data]
    results = structir.compile(module)["main"](m, v, g)
    assert [r.ctypes.data for r in results] == places
    assert_agree(expected, results)


# ---- random programs


def random_maps(rng: Random) -> IRModule:
    """Random elementwise ops with several results and common operands."""
    shape = rng.choice(['("k",)', '("n", "k")', "(3, 5)"])
    names = [f"x{i}" for i in range(rng.randint(1, 4))]
    params = dict.fromkeys(names, f'{shape}, "float32"')
    if rng.random() < 0.3 and shape != '("k",)':
        params["row"] = '("k",), "float32"' if "k" in shape else '(5,), "float32"'
    values, lines = list(params), list[str]()
    for number in range(rng.randint(3, 12)):
        fn = rng.choice(["add", "multiply", "subtract", "maximum", "exp", "tanh", "negative"])
        operands = [rng.choice(names)]
        if fn not in ("exp", "tanh", "negative"):
            operands.append(rng.choice([*values, "0.5"]))
        lines.append(f"v{number} = R.{fn}({', '.join(operands)})")
        values.append(f"v{number}")
        names = [*names, f"v{number}"] if rng.random() < 0.5 else names
    results = {f"v{number}" for number in range(len(lines)) if rng.random() < 0.5}
    results.add(f"v{len(lines) - 1}")
    return parsed(params, *lines, f"return {', '.join(sorted(results))}")


@pytest.mark.parametrize("seed", range(40))
def test_random_maps(seed: int) -> None:
    module = random_maps(Random(seed))
    rng = np.random.default_rng(seed)
    for n, k in ((1, 1), (3, 70)):
        check(module, [a * 0.3 for a in values_for(module, rng, n=n, k=k)])


BITS = """
from random import Random
import numpy as np
from structir.loops.emit import emitter
from tests.loops.test_siblings import FUSED, check_bits, parsed, random_maps, values_for

emitter.CONTRACT = ""
modules = [parsed(params, *lines) for params, lines in FUSED.values()]
for seed, module in enumerate([*modules, *[random_maps(Random(seed)) for seed in range(25)]]):
    check_bits(module, values_for(module, np.random.default_rng(seed), n=3, k=70))
print("equal")
"""


def test_results_have_the_bits_of_separate_kernels() -> None:
    """Without contraction: of the two products of a sum, LLVM rounds either one."""
    environment = os.environ | {"STRUCTIR_CACHE": "off"}
    run = subprocess.run(
        [sys.executable, "-c", BITS], env=environment, capture_output=True, text=True, check=False
    )
    assert run.stdout == "equal\n", run.stderr
