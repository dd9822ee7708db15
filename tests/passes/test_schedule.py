"""Programs as scheduled kernels: bitwise equal results, and editable sources."""

from functools import cache

import numpy as np
import pytest

import structir
from structir.analysis import check_well_formed
from structir.analysis.variables import walk
from structir.errors import StructIRError
from structir.ir import Call, IRModule, Kernel, Op, structural_equal
from structir.loops.emit import library
from structir.loops.emit.code import code_of
from structir.passes import BindParams, Schedule, pipeline
from structir.passes.manager.comparison import same
from structir.runtime.outline import outline
from structir.script import I, R, T
from structir.targets.cpu.features import gains_from_prefetching
from structir.tools.generate import random_arguments, random_module


@I.ir_module
class Layers:
    @R.function
    def softmax(x: R.Tensor(("n", "m"), "float32")):
        return R.nn.softmax(x)

    @R.function
    def norm(x: R.Tensor(("n", 40), "float32"), g: R.Tensor((40,), "float32")):
        return R.nn.layer_norm(x, g, R.zeros((40,), "float32"), axes=[-1])

    @R.function
    def gelu(x: R.Tensor(("n", 40), "float32")):
        return R.nn.gelu(x)

    @R.function
    def turned(x: R.Tensor(("a", "b", "c"), "float32")):
        return R.permute_dims(x, (0, 2, 1))

    @R.function
    def dense(
        x: R.Tensor(("n", 40), "float32"),
        w: R.Tensor((40, 24), "float32"),
        b: R.Tensor((24,), "float32"),
    ):
        return R.nn.gelu(R.matmul(x, w) + b)

    @R.function
    def attention(
        q: R.Tensor(("n", "s", 16), "float32"),
        k: R.Tensor(("n", "s", 16), "float32"),
        v: R.Tensor(("n", "s", 16), "float32"),
    ):
        return R.matmul(R.nn.softmax(R.matmul(q, R.permute_dims(k, (0, 2, 1)))), v)

    @R.function
    def half(x: R.Tensor(("n", "m"), "float16"), keep: R.Tensor(("n", "m"), "bool")):
        return R.where(R.logical_and(keep, x > 0.5), x * x, x), R.sum(x, axis=[0])


SHAPES = {
    "softmax": [(5, 300)],
    "norm": [(7, 40), (40,)],
    "gelu": [(9, 40)],
    "turned": [(2, 35, 19)],
    "dense": [(130, 40), (40, 24), (24,)],
    "attention": [(3, 20, 16)] * 3,
}
SCHEDULED = Schedule()(Layers)


@cache
def compiled(after: bool, threads: int = 1):
    return structir.compile(SCHEDULED if after else Layers, num_threads=threads)


def floats(name: str) -> list[np.ndarray]:
    rng = np.random.default_rng(len(name))
    return [rng.standard_normal(shape).astype("float32") for shape in SHAPES[name]]


def ops(module: IRModule) -> int:
    return sum(isinstance(part, Call) and isinstance(part.op, Op) for part in walk(module))


def call_of(module: IRModule, name: str) -> Kernel:
    """Returns the kernel that a function calls."""
    (call,) = [p for p in walk(module[name]) if isinstance(p, Call)]
    return module.functions[call.op.name]


def kernel_called(module: IRModule, name: str) -> str:
    """Returns the source of the kernel that a function calls."""
    return str(call_of(module, name))


def test_all_ops_become_scheduled_kernels() -> None:
    check_well_formed(SCHEDULED)
    assert structural_equal(structir.parse(SCHEDULED.script()), SCHEDULED)
    assert ops(SCHEDULED) == 0
    kernels = [k for k in SCHEDULED.functions.values() if isinstance(k, Kernel)]
    assert all(kernel.part is not None for kernel in kernels)
    assert "T.tiled_product(" in kernel_called(SCHEDULED, "dense")
    assert "T.transpose(" in kernel_called(SCHEDULED, "turned") or not own_products()


def own_products() -> bool:
    return library.has_own_products("float32")


@pytest.mark.parametrize("threads", [1, 2])
def test_compiled_results_are_bitwise_equal(threads: int) -> None:
    before, after = compiled(False, threads), compiled(True, threads)
    for name in SHAPES:
        inputs = floats(name)
        np.testing.assert_array_equal(after[name](*inputs), before[name](*inputs), name)
    x = np.linspace(-2, 2, 12, dtype="float16").reshape(4, 3)
    for one, other in zip(before["half"](x, x < 1), after["half"](x, x < 1), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", SHAPES)
def test_interpreted_results_are_equal(name: str) -> None:
    inputs = [x[:2] if len(x) in (5, 7, 9, 130) else x for x in floats(name)]
    result = structir.interpret(SCHEDULED, name, *inputs)
    np.testing.assert_allclose(result, structir.interpret(Layers, name, *inputs), 2e-5, 2e-6)


def test_an_unedited_kernel_streams_and_prefetches_as_the_schedule_does() -> None:
    (kernel,) = outline(Layers, "gelu").kernels
    code = code_of(call_of(SCHEDULED, "gelu"))
    for text in (kernel.text.code.assembled.text, code.assembled.text):
        assert "!nontemporal" in text
        assert ("llvm.prefetch" in text) is gains_from_prefetching()
    assert not code.sites


def test_parts_run_in_threads() -> None:
    executable = compiled(True, 2)
    x = np.ones((1 << 16, 40), "float32")
    executable["gelu"](x)
    (region,) = executable._regions["gelu"]
    bound = region._bound.latest()[0]
    assert bound.chunks[0] > 0


def test_a_kernel_can_be_edited() -> None:
    text = SCHEDULED.script()
    reciprocal = " = 1.0 / t6"
    assert text.count(reciprocal) == 1  # of `softmax`
    edited = structir.parse(text.replace(reciprocal, " = 2.0 / t6"))
    (x,) = floats("softmax")
    expected = 2 * compiled(False)["softmax"](x)
    np.testing.assert_array_equal(structir.compile(edited)["softmax"](x), expected)
    np.testing.assert_allclose(structir.interpret(edited, "softmax", x), expected, 1e-5)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("gelu", "x0.flat[i1_i2]", "x0.flat[i1_i2 + 1]"),
        ("gelu", "x0.flat[i1_i2]", "x0.flat[i1_i2 - 1]"),
        ("dense", "i1 - i0, 24, 40", "i1 - i0, 24, 41"),
        ("dense", "x1.flat[0]", "x1.flat[1]"),
        ("softmax", "row0[j9]", "row0[j9 + 1]"),
        ("attention", "for r in range(i0, i1)", "for r in range(i0, i1 + 300)"),
    ],
)
def test_out_of_bounds_accesses_are_errors(name: str, old: str, new: str) -> None:
    text = SCHEDULED.script()
    assert old in text
    edited = structir.parse(text.replace(old, new), "edited.py")
    own = IRModule({n: f for n, f in edited.functions.items() if n == name or type(f) is Kernel})
    for run in (structir.compile(own)[name], lambda *a: structir.interpret(edited, name, *a)):
        with pytest.raises(StructIRError, match=r"index -?\d+ is out of range for \w+"):
            run(*floats(name))


def test_without_tiles_plain_loops_and_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {name: compiled(False)[name](*floats(name)) for name in ("dense", "turned")}
    monkeypatch.setattr(library, "has_own_products", lambda dtype: False)
    kernels = {n: k for n, k in structir.parse(SCHEDULED.script()).functions.items()}
    wanted = ("dense", "turned", *[n for n, k in kernels.items() if isinstance(k, Kernel)])
    executable = structir.compile(IRModule({n: kernels[n] for n in wanted}))
    for name, wanted in expected.items():
        np.testing.assert_allclose(executable[name](*floats(name)), wanted, 1e-5, 1e-6)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.filterwarnings("ignore")
def test_random_programs_compute_the_same(seed: int) -> None:
    module = random_module(seed + 100, 5)
    after = Schedule()(module)
    assert structural_equal(structir.parse(after.script()), after)
    arguments = random_arguments(module["main"], seed)
    try:
        expected = structir.compile(module)["main"](*arguments)
    except StructIRError:
        return
    assert same(expected, structir.compile(after)["main"](*arguments), 1e-5)


STAGES = ("decompose", "lower", "lower,plan_memory", "schedule", "decompose,schedule,plan_memory")


@pytest.mark.parametrize("stage", STAGES)
def test_after_each_stage_the_module_prints_parses_and_runs(stage: str) -> None:
    @R.function
    def main(x: R.Tensor(("n", 40), "float32"), w: R.Tensor((40, 24), "float32")):
        n = T.int64()
        with R.dataflow():
            h = R.nn.gelu(R.matmul(x, w))
            y = R.nn.rms_norm(h, R.ones((24,), "float32"), axes=[-1])
            z = R.nn.softmax(R.matmul(y, R.permute_dims(w))) + x
            R.output(z)
        return z

    module = IRModule({"main": main})
    after = pipeline(stage)(module)
    check_well_formed(after)
    assert after is not module
    assert structural_equal(structir.parse(after.script()), after)
    inputs = floats("dense")[:2]
    expected = structir.interpret(module, "main", *inputs)
    np.testing.assert_allclose(structir.compile(after)["main"](*inputs), expected, 1e-4, 1e-6)


def test_out_of_bounds_reads_are_not_executed() -> None:
    @R.function
    def main(x: R.Tensor((1, 1, "n"), "int32"), y: R.Tensor((2, 3, "m", 5), "float32")):
        one = R.nn.max_pool1d(x, padding=[3], dilation=[2])
        two = R.nn.avg_pool2d(y, pool_size=[1, 1], padding=[1, 2, 1, 2], count_include_pad=True)
        return one, R.exp(two)

    module = IRModule({"main": main})
    scheduled = Schedule()(module)  # its indices are checked
    assert ops(scheduled) == 0
    x, y = np.arange(4, dtype="int32").reshape(1, 1, 4), np.ones((2, 3, 4, 5), "float32")
    expected = structir.interpret(module, "main", x, y)
    for each in (module, scheduled):
        for one, other in zip(structir.compile(each)["main"](x, y), expected, strict=True):
            np.testing.assert_allclose(one, other, 1e-6)


def test_constant_weights_are_packed_once() -> None:
    x, *weights = floats("dense")
    bound = BindParams(values=dict(zip("wb", weights, strict=True)), function="dense")
    module = bound(IRModule({"dense": Layers["dense"]}))
    scheduled = Schedule()(module)
    executable = structir.compile(scheduled)
    expected = structir.compile(module)["dense"](x)
    np.testing.assert_array_equal(executable["dense"](x), expected)
    assert ("panels" in executable.source("dense")) is own_products()
    (kernel,) = [name for name in scheduled.functions if name != "dense"]
    text = str(scheduled.functions[kernel]).replace("x1.flat[0]", "x1.flat[1]")
    edited = structir.parse(text).functions[kernel]
    wrong = structir.compile(scheduled.with_functions({**scheduled.functions, kernel: edited}))
    with pytest.raises(StructIRError, match=r"out of range for x1\.flat"):
        wrong["dense"](x)
