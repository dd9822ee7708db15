"""Attention in one kernel: found in programs by what their stages compute, run by threads of the
host, and compared with the interpreter in float64."""

import re
from functools import cache

import numpy as np
import pytest

import structir
from minilm_program import minilm_text
from structir.ir.dtype import numpy_dtype
from structir.targets.cuda.ahead import AheadDevice
from structir.targets.cuda.executable import DeviceExecutable
from tests.targets.cuda.host_threads import HostThreads
from tests.targets.cuda.simulated_every_op import on_host

pytestmark = pytest.mark.sampled(1)

HEADS = "R.Tensor((b, n, h, d), {t}), R.Tensor((b, m, h, d), {t}), R.Tensor((b, m, h, e), {t})"
ROWS = "R.Tensor((b, n, d), {t}), R.Tensor((b, m, d), {t}), R.Tensor((b, m, e), {t})"
POWERS = """
        s = R.matmul(q, R.permute_dims(k, axes=[0, 2, 1])) * R.const(0.3, {t})
        p = R.exp(s - R.max(s, axis=-1, keepdims=True))
"""
# What each program is given beside queries, keys and values; and its body.
PROGRAMS = {
    "plain": (HEADS, "", "y = R.nn.attention(q, k, v)"),
    "bias": (HEADS, "R.Tensor((b, 1, n, m), {t})", "y = R.nn.attention(q, k, v, x)"),
    "causal": (HEADS, "", 'y = R.nn.attention(q, k, v, scale=0.5, causal_mask="BottomRight")'),
    "window": (HEADS, "", 'y = R.nn.attention(q, k, v, causal_mask="TopLeft", window_size=2)'),
    "softmax": (
        ROWS,
        'R.Tensor((n, m), "bool")',
        """
        s = R.matmul(q, R.permute_dims(k, axes=[0, 2, 1])) * R.const(0.3, {t})
        y = R.matmul(R.nn.softmax(R.where(x, s, R.const(-1e9, {t}))), v)
""",
    ),
    "divided after": (ROWS, "", POWERS + "\ny = R.matmul(p, v) / R.sum(p, axis=-1, keepdims=True)"),
    "not divided": (ROWS, "", POWERS + "\ny = R.matmul(p, v)"),
    "with what follows": (
        ROWS,
        "R.Tensor((e,), {t})",
        POWERS + "\ny = R.nn.gelu(R.matmul(p / R.sum(p, axis=-1, keepdims=True), v) + x)",
    ),
    "dropped weights": (
        ROWS,
        "R.Tensor((n, m), {t})",
        POWERS + "\ny = R.matmul(p / R.sum(p, axis=-1, keepdims=True) * x, v)",
    ),
    "keys in columns": (
        "R.Tensor((n, d), {t}), R.Tensor((d, m), {t}), R.Tensor((e, m), {t})",
        "",
        "y = R.matmul(R.nn.softmax(R.matmul(q, k)), R.permute_dims(v))",
    ),
    "keys for all heads": (
        "R.Tensor((b, h, n, d), {t}), R.Tensor((b, 1, m, d), {t}), R.Tensor((b, 1, m, e), {t})",
        "",
        "y = R.matmul(R.nn.softmax(R.matmul(q, R.permute_dims(k, axes=[0, 1, 3, 2]))), v)",
    ),
    "one query": (
        "R.Tensor((d,), {t}), R.Tensor((m, d), {t}), R.Tensor((m, e), {t})",
        "",
        "y = R.matmul(R.nn.softmax(R.matmul(k, q)), v)",
    ),
}
SIZES = {"b": 2, "h": 3, "n": 5, "m": 9, "d": 4, "e": 6}


def text_of(name, dtype="float32", fixed=("d", "e"), results="y", body=None, **sizes):
    """A program, in which some sizes are numbers."""
    operands, beside, own = PROGRAMS[name]
    sizes = {**SIZES, **sizes}
    params = [*operands.replace("), R.", ")|R.").split("|"), *([beside] if beside else [])]
    lines = [f"{n}: {p}" for n, p in zip("qkvx", params, strict=False)]
    inside = [line.strip() for line in (body or own).strip().splitlines()]
    inside = [
        "    with R.dataflow():",
        *[f"        {s}" for s in inside],
        f"        R.output({results})",
    ]
    head = f"@R.function\ndef main({', '.join(lines)}):"
    named = {s: str(n) if s in fixed else f'"{s}"' for s, n in sizes.items()}
    head = re.sub(r"(?<=[(\s])([a-z])(?=[,)])", lambda m: named[m[1]], head)
    text = "\n".join([head, *inside, f"    return {results}", ""])
    return text.replace("{t}", f'"{dtype}"')


def arguments(module, rng, dtype, **sizes):
    sizes = {**SIZES, **sizes}
    for param in module["main"].params:
        info = param.struct_info
        shape = [d if isinstance(d, int) else sizes[str(d)] for d in info.dims]
        x = rng.standard_normal(shape)
        yield x > -0.5 if info.dtype == "bool" else x.astype(numpy_dtype(dtype))


def doubled(value):
    return value if value.dtype == bool else value.astype("float64")


@cache
def executable_of(device, text):
    return DeviceExecutable(structir.parse(text), device)


def compared(device, text, given, dtype="float32", kernels=1, rtol=None):
    """The results of a program, which must be those of the interpreter in float64."""
    executable = executable_of(device, text)
    assert executable.kernel_count == kernels, executable.source()
    module = structir.parse(text.replace(f'"{dtype}"', '"float64"'))
    wanted = structir.interpret(module, "main", *[doubled(x) for x in given])
    found = on_host(executable["main"](*given))
    rtol = rtol or {"float64": 1e-12, "float32": 1e-5, "float16": 2e-2, "bfloat16": 1e-1}[dtype]
    pairs = [(found, wanted)] if not isinstance(found, tuple) else zip(found, wanted, strict=True)
    for one, other in pairs:
        assert one.dtype == numpy_dtype(dtype)
        np.testing.assert_allclose(one.astype("float64"), other, rtol, rtol)
    return found


@pytest.fixture(scope="module")
def device():
    return HostThreads()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(device, name):
    text, rng = text_of(name), np.random.default_rng(0)
    given = list(arguments(structir.parse(text), rng, "float32"))
    compared(device, text, given)


@pytest.mark.sampled(1)
@pytest.mark.filterwarnings("ignore:overflow")  # what masks take away is too much for float16
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_dtypes(device, dtype):
    rng = np.random.default_rng(1)
    text = text_of("causal", dtype)
    compared(device, text, list(arguments(structir.parse(text), rng, dtype)), dtype)


@pytest.mark.parametrize(
    ("name", "dtype", "sizes"),
    [
        ("plain", "float16", {"n": 40, "m": 33, "d": 16, "e": 24}),
        ("dropped weights", "bfloat16", {"n": 3, "m": 40, "d": 24, "e": 8}),
        ("keys in columns", "float16", {"n": 17, "m": 8, "d": 8, "e": 16}),
        ("divided after", "float16", {"n": 2, "m": 0, "d": 8, "e": 16}),
    ],
    ids=str,
)
def test_warps_multiply_16_bit_floats(device, name, dtype, sizes):
    rng = np.random.default_rng(5)
    text = text_of(name, dtype, b=1, h=1, **sizes)
    module = structir.parse(text)
    given = list(arguments(module, rng, dtype, b=1, h=1, **sizes))
    compared(device, text, given, dtype)
    source = DeviceExecutable(module, device).source()
    assert f"multiply_{dtype}" in source and "right_fragments_turned" in source


# Around and beyond tiles.
@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "sizes",
    [
        {"n": 1, "m": 1},
        {"n": 33, "m": 32, "d": 40, "e": 32},
        {"n": 32, "m": 65, "d": 33, "e": 40},
        {"n": 1, "m": 100, "d": 64, "e": 70},
        {"n": 3, "m": 0},
        {"n": 0, "m": 3},
        {"b": 0},
        {"n": 2, "m": 3, "d": 2, "e": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("fixed", [("d", "e", "h"), ()], ids=["known heads", "free sizes"])
def test_sizes(device, sizes, fixed):
    text, rng = text_of("bias", fixed=fixed, **sizes), np.random.default_rng(2)
    module = structir.parse(text)
    given = list(arguments(module, rng, "float32", **sizes))
    compared(device, text.replace("q, k, v, x)", "q, k, v, x, scale=0.3)"), given)


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize(
    ("name", "dtype", "sizes"),
    [
        ("causal", "float32", {"n": 70, "m": 100}),
        ("causal", "float64", {"n": 70, "m": 40}),  # the first rows see no key, so all alike
        ("window", "float32", {"n": 130, "m": 130}),
        ("causal", "float16", {"n": 40, "m": 70, "d": 16, "e": 8}),
    ],
    ids=str,
)
def test_tiles_that_a_mask_takes_away(device, name, dtype, sizes):
    sizes = {"b": 1, "h": 1, **sizes}
    text = text_of(name, dtype, **sizes)
    given = list(arguments(structir.parse(text), np.random.default_rng(6), dtype, **sizes))
    compared(device, text, given, dtype)
    if name == "window":  # what nobody sees of a tile is not read
        given[1][0, 128:] = given[2][0, 128:] = np.nan
        run = DeviceExecutable(structir.parse(text), device)["main"]
        assert np.isfinite(on_host(run(*given))[0, :128]).all()


SOFTMAX = """
s = R.matmul(q, R.permute_dims(k, axes=[0, 2, 1])) + x
y = R.matmul(R.nn.softmax(s), v)
"""
DIVIDED = """
s = R.matmul(q, R.permute_dims(k, axes=[0, 2, 1])) + x
p = R.exp(s - R.max(s, axis=-1, keepdims=True))
y = R.matmul(p, v) / R.sum(p, axis=-1, keepdims=True)
"""


@pytest.mark.parametrize("body", [SOFTMAX, DIVIDED], ids=["divided before", "divided after"])
def test_rows_without_numbers_and_without_keys(device, body):
    program = text_of("dropped weights", body=body, m=40)
    rng = np.random.default_rng(3)
    given = list(arguments(structir.parse(program), rng, "float32", m=40))
    given[3][0] = -np.inf
    given[3][1, :34] = -np.inf
    given[3][2, 7] = np.nan
    given[3][3, 5] = np.inf
    with np.errstate(all="ignore"):
        found = compared(device, program, given)
    assert np.isnan(found[:, [0, 2, 3]]).all() and np.isfinite(found[:, [1, 4]]).all()


def test_totals_that_others_read(device):
    body = """
s = R.matmul(q, R.permute_dims(k, axes=[0, 2, 1])) * R.const(0.3, {t})
u = R.max(s, axis=-1, keepdims=True)
p = R.exp(s - u)
z = R.sum(p, axis=-1)
y = R.matmul(p, v)
"""
    text = text_of("not divided", results="y, z, u", body=body)
    given = list(arguments(structir.parse(text), np.random.default_rng(4), "float32"))
    compared(device, text, given)


def test_two_that_are_added_up(device):
    body = """
s = R.matmul(q, R.permute_dims(k, axes=[0, 2, 1]))
t = R.matmul(k, R.permute_dims(k, axes=[0, 2, 1]))
y = R.matmul(R.nn.softmax(s), v) + R.matmul(R.nn.softmax(t), v)
"""
    text = text_of("not divided", body=body).replace('"n"', '"m"')
    given = list(arguments(structir.parse(text), np.random.default_rng(7), "float32"))
    compared(device, text, given, kernels=2)


REFUSED = {
    "both factors depend on the scores": POWERS
    + "\ny = R.matmul(p, R.permute_dims(s, axes=[0, 2, 1]))",
    "a reduction is along other axes than the keys": """
s = R.matmul(q, R.permute_dims(k, axes=[0, 2, 1]))
y = R.matmul(R.exp(s - R.max(s, axis=1, keepdims=True)), v)
""",
    "scores of another point are read": """
s = R.matmul(q, R.permute_dims(k, axes=[0, 2, 1]))
t = s + R.flip(s, axis=2)
y = R.matmul(R.nn.softmax(t), v)
""",
    "read elsewhere": POWERS + "\ny = R.matmul(p, v) + R.sum(R.sin(p))",
    "no powers": """
        s = R.matmul(q, R.permute_dims(k, axes=[0, 2, 1]))
        y = R.matmul(s - R.max(s, axis=-1, keepdims=True), v)
""",
    "no product with a power": POWERS + "\ny = R.matmul(p + s, v)",
    "no sum of powers": POWERS + "\ny = R.matmul(p / R.sum(s, axis=-1, keepdims=True), v)",
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_no_attention_says_why(device, reason):
    text = text_of("not divided", body=REFUSED[reason])
    (plan,) = DeviceExecutable(structir.parse(text), device).plans()
    assert len(plan.kernels) > 1
    assert any(reason in decision.reason for decision in plan.recipe.scheduled.decisions)


def test_wide_values_stay_three_kernels(device):
    text = text_of("softmax", e=300)
    (plan,) = DeviceExecutable(structir.parse(text), device).plans()
    assert any("300 elements" in d.reason for d in plan.recipe.scheduled.decisions)


def test_the_encoder_has_attention_in_one_kernel():
    module = structir.parse(minilm_text())
    executable = DeviceExecutable(module, AheadDevice("sm_90"))
    (layer,) = executable.plans("encoder_layer")
    assert sum("mixed" in kernel.text for kernel in layer.kernels) == 1
    free = {s.name: n for s, n in zip(layer.symbols, (8, 128), strict=True)}
    sizes = {s: free[s.name] for s in layer.symbols}
    arena = layer.bound(sizes).arena_bytes
    assert arena < 4 * 8 * 12 * 128 * 128 + 4 * 8 * 128 * (384 * 3 + 1536)
