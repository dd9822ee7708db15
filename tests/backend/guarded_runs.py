"""Programs over extreme integers, interpreted and compiled, on arrays between pages that cannot be
touched. It runs as a process of its own, which an access out of bounds ends."""

import ctypes
import mmap
import sys
from functools import partial

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

import structir
from structir.backend.kernel_calls import KernelRunner
from structir.errors import StructIRError
from structir.interpret.kernels import KernelValue, run_kernel

PAGE = mmap.PAGESIZE
GREATEST = 2**63 - 1
EXTREME = (0, 1, 2, 5, -1, 2**61, 2**62, 2**62 + 2**60, GREATEST, -GREATEST, -GREATEST - 1)
INTS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
X = np.arange(10, 18)
FEW = settings(max_examples=25, deadline=None, database=None, derandomize=True)
protect = ctypes.CDLL(None).mprotect


def guarded(array, at_end):
    """The array in pages of its own, with a page that cannot be touched before and behind them."""
    pages = max(-(-array.nbytes // PAGE), 1)
    memory = mmap.mmap(-1, (pages + 2) * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    offset = PAGE + (pages * PAGE - array.nbytes if at_end else 0)
    copy = np.frombuffer(memory, array.dtype, array.size, offset).reshape(array.shape)
    copy[...] = array
    for page in (0, pages + 1):
        assert protect(ctypes.c_void_p(start + page * PAGE), PAGE, 0) == 0
    return copy


def outcome(run):
    """The result, or the message of the error."""
    try:
        return np.array(run())
    except StructIRError as error:
        return str(error)


def assert_agree(text, runs, interpreted, compiled, messages=True):
    """Both give the same, or fail, with the same message if so asked."""
    for arguments in runs:
        expected = outcome(lambda a=arguments: interpreted(a, None))
        failed = isinstance(expected, str)
        for at_end in (False, True):
            inside = [guarded(a, at_end) if isinstance(a, np.ndarray) else a for a in arguments]
            out = guarded(np.zeros(4, X.dtype) if failed else expected, at_end)
            found = outcome(lambda a=inside, o=out: compiled(a, o))
            same = isinstance(found, str) if failed else np.array_equal(found, expected)
            same = same and (not failed or not messages or found == expected)
            assert same, f"{text}\n{arguments}: expected {expected}, found {found}"


def assert_kernel(body, runs, dtype="int64", held="int64", messages=True):
    """A kernel that fills `out` from `x`, an array `u` of a dtype, and a number `k`."""
    text = f"""
@I.kernel
def f(x: R.Tensor(("n",), "{held}"), u: R.Tensor(("m",), "{dtype}"),
      k_: R.Prim("int64", value="k"), out: R.Tensor((4,), "{held}")):
    {body}
"""

    def filled(run):
        value = KernelValue(structir.parse(text)["f"], run)

        def call(arguments, out):
            out = np.zeros(4, held) if out is None else out.view(held)[:4]
            value(*arguments, out)
            return out

        return call

    assert_agree(text, runs, filled(run_kernel), filled(KernelRunner()), messages)


def integers(leaves):
    """Texts of integer expressions, some of which are one of their operands unless they wrap."""

    def wider(inner):
        signs = ["{} + {}", "{} - {}", "{} * {}", "{} // {}", "{} % {}", "{0} * 4 // 4 + {1}"]
        again = [
            "({0} + {1}) - {1}",
            "({0} * 4 + {1} * 4) // 4 - {1}",
            "min({}, {})",
            "max({}, {})",
        ]
        forms = st.tuples(st.sampled_from(signs + again), inner, inner)
        return forms.map(lambda form: f"({form[0].format(*form[1:])})")

    return st.recursive(leaves, wider, max_leaves=4)


INDEX = integers(st.sampled_from(["i", "i", "k", "u[i]", "n", "m", "2", str(2**62), str(GREATEST)]))


def runs_of(dtype):
    """Arguments with the greatest and least integers of a dtype, and some between."""
    info = np.iinfo(dtype)
    half = info.max // 2 + 1
    values = np.array([0, 1, 2, 3, info.max, info.min, half, half + half // 4], dtype)
    numbers = [0, 1, 3, 2**61, 2**62, GREATEST]
    return [(X, np.roll(values, shift)[:4].copy(), k) for shift, k in enumerate(numbers)]


@FEW
@given(st.sampled_from(["{}", "({}) % n", "abs({}) % 3"]), INDEX)
@example("{}", "u[i] * 2")
@example("{}", "(i * 4 + k * 4) // 4 - k")
def reads(form, index):
    """Elements at computed indices."""
    body = f"for i in range(m):\n        out[i] = x[{form.format(index)}]"
    assert_kernel(body, runs_of("int64"))


@FEW
@given(st.sampled_from(["{}", "({}) % m"]), INDEX, INDEX)
@example("{}", "u[i] * 2", "i")
@example("({}) % m", "i", "u[i] * 2 // 2")
def writes(form, index, value):
    """Elements written at computed indices, which a name holds."""
    body = f"for i in range(m):\n        at = {form.format(index)}\n        out[at] = {value}"
    assert_kernel(body, runs_of("int64"))


@FEW
@given(st.sampled_from(INTS), integers(st.sampled_from(["u[i]", "u[i]", "u[0]", "1", "2", "100"])))
def narrow_dtypes(dtype, index):
    """Indices that wrap in their own dtype."""
    body = f"for i in range(m):\n        at = u[i] + {index}\n        out[i] = x[at] + T.int64(at)"
    assert_kernel(body, runs_of(dtype), dtype)


@FEW
@given(INDEX, INDEX, st.sampled_from([1, 2, -1, -2, 2**62, -(2**62), GREATEST]))
@example("k", str(GREATEST), 2**62)
def counted_loops(start, stop, step):
    """Loops between computed numbers, which are left after some iterations."""
    body = f"""for i in range(m):
        rounds = 0
        for j in range({start}, {stop}, {step}):
            if rounds == 3:
                break
            rounds += 1
            out[i] = x[rounds] + j"""
    assert_kernel(body, runs_of("int64"))


ENDS = st.sampled_from([*EXTREME, 7, GREATEST - 1, GREATEST - 4, 3 - GREATEST])


@FEW
@given(ENDS, ENDS, st.sampled_from([1, 2, 3, -1, -2, -3, 2**62, -(2**62), GREATEST, -GREATEST]))
@example(GREATEST - 3, GREATEST, 2)
@example(3 - GREATEST, -GREATEST - 1, -3)
def whole_loops(start, stop, step):
    """Loops up to the last numbers."""
    if (stop - start) // step > 100:
        start = stop - 5 * step if abs(stop - 5 * step) < GREATEST else stop
    body = f"""c = 0
    for j in range(u[0], u[1], {step}):
        c += 1
        out[0] = out[0] * 3 + (j ^ c)"""
    assert_kernel(body, [(X, np.array([start, stop]), 1)])


TENSOR = integers(st.sampled_from(["x", "y", "z"]))
USES = ["{0} > {1}", "R.take(w, {0})", "R.take(w, {0}, mode='clip')", "R.take(w, {0}, mode='wrap')"]
USES += ["R.sum({0} * {1})", "R.cumsum({0})", "R.prod({0})", "R.max({0} - {1})"]
USES += ["R.where({0} < {1}, x, y)", "R.astype({0}, 'int8')", "-{0} // {1}", "{0} + {1} > {0}"]
USES += ["R.scatter_elements(w, {0}, x, axis=0)"]


@FEW
@given(st.sampled_from(USES), TENSOR, TENSOR)
@example("{0} + {1} > {0}", "x", "z")
@example("R.take(w, {0})", "(x * 4 // 4 + y)", "x")
def fused_ops(use, first, second):
    """Ops of integers, fused with those that use their results."""
    operands = [
        t.replace("min(", "R.minimum(").replace("max(", "R.maximum(") for t in (first, second)
    ]
    sized = 'R.Tensor(("n",), "int64")'
    text = f"""
@R.function
def main(x: {sized}, y: {sized}, w: R.Tensor(("m",), "int64")):
    z = R.const({2**62}, "int64")
    return {use.format(*operands).replace(" 4", " R.const(4, 'int64')")}
"""
    values = np.array([*EXTREME, 3])
    runs = [(values, np.roll(values, shift), np.arange(20, 25)) for shift in (0, 1, 3)]
    module = structir.parse(text)
    compiled = structir.compile(module)["main"]
    interpreted = partial(structir.interpret, module, "main")
    assert_agree(text, runs, lambda a, _: interpreted(*a), lambda a, out: compiled(*a, out=out))


FILLED = "lo, hi = T.part(4)\n    for i in range(4):\n        out.flat[i] = x.flat[0]\n    "


@FEW
@given(st.lists(st.sampled_from(EXTREME), min_size=4, max_size=4), st.booleans())
@example([-GREATEST - 1, 3, 0, 3], False)
def parts(numbers, whole):
    """Loops of kernels in parts, whose indices are checked before them."""
    loop = f"for i in range({'lo, hi' if whole else 'u[2], u[3]'}):"
    body = f"{FILLED}s = u[0]\n    t = u[1]\n    {loop}\n        out.flat[i] = x.flat[i * s + t]"
    assert_kernel(body, [(X, np.array(numbers), 1)], messages=False)


CALLS = ["T.transpose(out.flat[0], x.flat[k], u[0], u[1], u[2], u[3])"]
CALLS += [
    f"T.tiled_product(x.flat[k], x.flat[1], out.flat[0], {integers})"
    for integers in (
        "u[0], 2, 2, 2, 1, u[1], 1, u[2]",
        "2, 2, u[0], u[1], 1, u[2], 1, 2",
        "2, u[0], 2, u[1], 1, u[2], u[3], 2",
    )
]


@FEW
@given(
    st.sampled_from(CALLS),
    st.lists(st.sampled_from([*EXTREME, 1, 1, 2, 2, 3]), min_size=4, max_size=4),
)
@example(
    "T.tiled_product(x.flat[k], x.flat[1], out.flat[0], u[0], 2, 2, u[1], 1, 2, 1, u[2])",
    [2**62 + 1, 4, 4, 1],
)
def library_calls(call, numbers):
    """Functions of the library on memory in steps."""
    numbers[2] = numbers[2] or 1  # many steps that go nowhere take their time
    body = f"{FILLED}{call}"
    runs = [(X.astype("float32"), np.array(numbers), k) for k in (0, 1, GREATEST)]
    assert_kernel(body, runs, held="float32", messages=False)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
