"""Programs on the simulator: fusion, control flow, kernels of users, arrays from elsewhere."""

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError, ShapeMismatchError, StructIRError
from structir.script import I, R, T
from structir.targets.cuda import grid_reduction as whole
from structir.targets.cuda.arrays import on_device
from structir.tools.generate import random_arguments
from tests.loops.test_kernels import random_call
from tests.runtime.agreement import assert_agree
from tests.targets.cuda.simulated_every_op import on_host
from tests.targets.cuda.test_attention import arguments, text_of
from tests.targets.cuda.test_kernels_of_threads import Sums, given


@I.ir_module
class Mlp:
    @R.function
    def main(
        x: R.Tensor(("n", 7), "float32"),
        w: R.Tensor((7, "m"), "float32"),
        b: R.Tensor(("m",), "float32"),
    ) -> R.Tensor((), "float32"):
        with R.dataflow():
            h = R.nn.gelu(R.matmul(x, w) + b)
            y = R.nn.layer_norm(h, R.ones_like(b), b, axes=-1)
            z = R.mean(R.nn.softmax(y) * h)
            R.output(z)
        return z


@I.ir_module
class Flow:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), again: R.Tensor((), "bool")):
        if again:
            y = R.exp(x) + x
        else:
            y = R.negative(x)
        return R.sum(y), y

    @R.function
    def any_rank(x: R.Tensor(("*s",), "float32")):
        return R.tanh(x)

    @R.function
    def same(x: R.Tensor(("n",), "float32")):
        return x

    @R.function
    def found(x: R.Tensor(("n",), "float32")):
        return R.unique(x, sorted=False)


@I.ir_module
class OnDevice:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), again: R.Tensor((), "bool")):
        if again:
            y = R.exp(x) + x
        else:
            y = R.negative(x)
        return R.sum(y), y

    @R.function
    def any_rank(x: R.Tensor(("*s",), "float32")):
        return R.tanh(x)

    @R.function
    def same(x: R.Tensor(("n",), "float32")):
        return x


WHOLE = """
@R.function
def main(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("n", "m"), "float32")):
    with R.dataflow():
        a = R.mean(x * y)
        b = R.sum(R.abs(x))
        c = R.prod(y)
        d = R.sum(R.square(x - b))
        e = R.variance(y)
        R.output(a, b, c, d, e)
    return a, b, c, d, e
"""


def floats(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def flow():
    return structir.compile(OnDevice, target="cuda")


def test_one_compilation_for_all_sizes():
    executable = structir.compile(Mlp, target="cuda")
    kernels = executable.kernel_count
    for n, m in ((5, 3), (2, 9), (1, 1)):
        given = floats(n, 7), floats(7, m), floats(m)
        wanted = structir.interpret(Mlp, "main", *given)
        assert_agree(wanted, on_host(executable["main"](*given)))
    assert executable.kernel_count == kernels
    assert "block_sum_float32" in executable.source()


PRODUCTS = {
    "R.nn.relu(R.nn.conv2d(x, w, padding=1) + x)": ((1, 8, 3, 4), (8, 8, 3, 3)),
    "R.exp(R.nn.conv1d(x, w, strides=2))": ((2, 3, 9), (9, 3, 3)),
    "R.matmul(x, w)": ((9, 7), (7, 18)),
    "R.matmul(x, R.permute_dims(w)) * 2": ((2, 20), (5, 20)),
    "R.matmul(x, w) * 2": ((3, 17), (17, 6)),
}


@pytest.mark.parametrize("body", PRODUCTS)
def test_products_by_tiles_and_strips(body):
    given = [floats(*shape, seed=k) for k, shape in enumerate(PRODUCTS[body])]
    params = [f'{n}: R.Tensor({v.shape}, "float32")' for n, v in zip("xw", given, strict=True)]
    module = structir.parse(f"@R.function\ndef main({', '.join(params)}):\n    return {body}\n")
    executable = structir.compile(module, target="cuda")
    assert "held" in executable.source()
    wanted = structir.interpret(module, "main", *given)
    assert_agree(wanted, on_host(executable["main"](*given)))


def test_a_gradient_agrees():
    trained = structir.passes.Gradient()(Mlp)
    given = floats(4, 7), floats(7, 3), floats(3)
    wanted = structir.interpret(trained, "main_adjoint", *given)
    found = structir.compile(trained, target="cuda")["main_adjoint"](*given)
    assert_agree(wanted, on_host(found))


def test_all_elements_are_put_together_by_many_blocks(monkeypatch):
    monkeypatch.setattr(whole, "EACH", 8)
    module = structir.parse(WHOLE)
    executable = structir.compile(module, target="cuda")
    for shape in ((3, 4), (13, 7), (1, 1), (0, 5)):
        given = floats(*shape), floats(*shape, seed=2)
        wanted = structir.interpret(module, "main", *given)
        assert_agree(wanted, on_host(executable["main"](*given)))
    assert "block_prod_float32" in executable.source() and "[part]" in executable.source()


def test_a_reshape_to_a_product_of_sizes_is_spread_over_threads():
    text = """
@R.function
def main(x: R.Tensor(("n", "m"), "float32")):
    return R.exp(R.reshape(x, R.shape([n * m])))
"""
    module = structir.parse(text)
    executable = structir.compile(module, target="cuda")
    assert_agree(np.exp(floats(3, 5)).reshape(-1), on_host(executable["main"](floats(3, 5))))
    assert "for point in range(cuda.grid(1), 1," not in executable.source()


TURNED = {
    "R.permute_dims(x) + y": ((5, 7), (7, 5)),
    "R.exp(R.permute_dims(x, axes=[0, 2, 1])) * 2": ((2, 3, 5), (1,)),
    "R.permute_dims(x, axes=[2, 1, 0])": ((4, 3, 5), (1,)),
    "R.permute_dims(x > 0)": ((5, 3), (1,)),
    "R.where(R.permute_dims(x > 0), R.permute_dims(x), y)": ((5, 3), (3, 5)),
}


@pytest.mark.parametrize("body", TURNED)
def test_tiles_go_by_way_of_shared_memory(body):
    names, params = iter("abcdef"), []
    for name, shape in zip("xy", TURNED[body], strict=True):
        sizes = "".join(f"{next(names)!r}, " for _ in shape)
        params.append(f'{name}: R.Tensor(({sizes}), "float32")')
    text = f"@R.function\ndef main({', '.join(params)}):\n    return {body}\n"
    module, given = structir.parse(text), [floats(*shape) for shape in TURNED[body]]
    executable = structir.compile(module, target="cuda")
    assert "tile0" in executable.source()
    wanted = structir.interpret(module, "main", *given)
    assert_agree(wanted, on_host(executable["main"](*given)))


@pytest.mark.parametrize("descending", [True, False])
def test_elements_in_order_with_equal_ones_and_without_number(descending):
    text = f"""
@R.function
def main(x: R.Tensor(("n", "m"), "float32")):
    with R.dataflow():
        a = R.sort(x, descending={descending})
        b = R.argsort(x, axis=0, descending={descending})
        c = R.topk(x, 4, largest={descending})
        R.output(a, b, c)
    return a, b, c
"""
    module = structir.parse(text)
    x = np.array([[2, 1, np.nan, 2, 1, 0], [5, 5, 5, np.nan, np.nan, 5]], "float32")
    found = on_host(structir.compile(module, target="cuda")["main"](x))
    wanted = structir.interpret(module, "main", x)
    for one, other in zip((*wanted[:2], *wanted[2]), (*found[:2], *found[2]), strict=True):
        np.testing.assert_array_equal(one, other)


def test_both_ways_of_a_branch(flow):
    x = floats(6)
    for again in (True, False):
        wanted = structir.interpret(OnDevice, "main", x, np.asarray(again))
        assert_agree(wanted, on_host(flow["main"](x, np.asarray(again))))


def test_every_rank(flow):
    for shape in ((3,), (2, 3), ()):
        assert_agree(np.tanh(floats(*shape)), on_host(flow["any_rank"](floats(*shape))))


def test_an_op_without_a_kernel_is_refused_where_it_stands():
    with pytest.raises(DiagnosticError, match="unique in found has no CUDA kernel") as caught:
        structir.compile(Flow, target="cuda")
    assert caught.value.diagnostics[0].span is not None


INFO = OnDevice["same"].params[0].struct_info


def test_arrays_stay_on_the_device(flow):
    x = floats(5)
    held = flow["any_rank"](x)
    again = flow["same"](held)
    assert again.address != held.address
    assert_agree(on_host(held), on_host(again))
    assert on_device(flow.device, INFO, held) is held
    np.testing.assert_array_equal(np.from_dlpack(held), np.tanh(x))
    assert np.asarray(held).dtype == np.float32
    described = held.__cuda_array_interface__
    assert (described["shape"], described["typestr"]) == ((5,), "<f4")


class Described:
    """An array of another library on the device."""

    def __init__(self, array, strides=None):
        self.array = array
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.ctypes.data, False),
            "strides": strides,
            "version": 3,
        }


def test_arrays_of_others_are_read_where_they_lie(flow):
    x = floats(5)
    assert on_device(flow.device, INFO, Described(x)).address == x.ctypes.data
    result = flow["same"](Described(x))
    assert result.address != x.ctypes.data
    np.testing.assert_array_equal(on_host(result), x)
    np.testing.assert_array_equal(on_host(flow["any_rank"](Described(x))), np.tanh(x))
    with pytest.raises(ShapeMismatchError, match="not dense"):
        flow["any_rank"](Described(x, (8,)))


def test_what_does_not_fit_is_refused(flow):
    with pytest.raises(ShapeMismatchError, match="dtype"):
        flow["same"](np.zeros(3))
    with pytest.raises(ShapeMismatchError, match="1 axes"):
        flow["same"](floats(2, 2))
    with pytest.raises(StructIRError, match="expected 1 argument, found 0"):
        flow["same"]()
    with pytest.raises(StructIRError, match="no function 'other'"):
        flow["other"]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.filterwarnings("ignore")
def test_kernels_of_users(seed):
    module = random_call(seed)
    for args in [random_arguments(module["main"], seed)]:
        try:
            wanted = structir.interpret(module, "main", *args)
        except StructIRError as error:
            with pytest.raises(type(error)):
                structir.compile(module, target="cuda")["main"](*args)
            continue
        assert_agree(wanted, on_host(structir.compile(module, target="cuda")["main"](*args)))


def test_a_kernel_whose_iterations_never_meet_is_spread_over_threads():
    @I.ir_module
    class Rows:
        @I.kernel
        def scaled(x: R.Tensor(("n", "m"), "float32"), out: R.Tensor(("n", "m"), "float32")):
            for i in range(n):
                total = 0.0
                for j in range(m):
                    total += x[i, j]
                for j in range(m):
                    out[i, j] = x[i, j] / total

        @R.function
        def main(x: R.Tensor(("n", "m"), "float32")):
            n = T.int64()
            m = T.int64()
            return R.call_kernel(scaled, (x,), out_sinfo=R.Tensor((n, m), "float32"))

    executable, x = structir.compile(Rows, target="cuda"), np.abs(floats(7, 3))
    assert_agree(structir.interpret(Rows, "main", x), on_host(executable["main"](x)))
    assert "for i in range(0 + cuda.grid(1), n, cuda.gridsize(1)):" in executable.source()


def test_an_index_out_of_range_is_told():
    @I.ir_module
    class Gather:
        @I.kernel
        def pick(
            x: R.Tensor(("n",), "float32"),
            at: R.Tensor(("m",), "int64"),
            out: R.Tensor(("m",), "float32"),
        ):
            for k in range(m):
                out[k] = x[at[k]]

        @R.function
        def main(x: R.Tensor(("n",), "float32"), at: R.Tensor(("m",), "int64")):
            m = T.int64()
            return R.call_kernel(pick, (x, at), out_sinfo=R.Tensor((m,), "float32"))

    run = structir.compile(Gather, target="cuda")["main"]
    x = floats(4)
    np.testing.assert_array_equal(on_host(run(x, np.array([2, 0]))), x[[2, 0]])
    with pytest.raises(StructIRError, match="index 4"):
        run(x, np.array([2, 4]))


def test_kernels_of_threads():
    wanted = structir.interpret(Sums, "main", *given())
    assert_agree(wanted, on_host(structir.compile(Sums, target="cuda")["main"](*given())))


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("causal", "float32"), ("dropped weights", "float64"), ("divided after", "float16")],
)
def test_attention_in_one_kernel(name, dtype):
    sizes = {"b": 1, "h": 2, "n": 3, "m": 10, "d": 2, "e": 3}
    module = structir.parse(text_of(name, dtype, **sizes))
    given = list(arguments(module, np.random.default_rng(0), dtype, **sizes))
    executable = structir.compile(module, target="cuda")
    wanted = structir.interpret(module, "main", *given)
    assert_agree(wanted, on_host(executable["main"](*given)))
    assert executable.kernel_count == 1


@I.ir_module
class Shared:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        a = R.negative(x)
        c = R.const([1.0, 2.0], "float32")
        return (a, x, R.reshape(a, (2, 2)), R.reshape(x, (2, 2)), (c, c), x)

    @R.function
    def chosen(x: R.Tensor((4,), "float32"), flag: R.Tensor((), "bool")):
        if flag:
            both = (x, R.exp(x))
        else:
            both = (R.reshape(R.reshape(x, (2, 2)), (4,)), R.negative(x))
        return (both, both[0], both[1])


@pytest.mark.parametrize("name", ["main", "chosen"])
def test_results_belong_to_the_caller(name):
    executable = structir.compile(Shared, target="cuda")
    x = structir.compile(OnDevice, target="cuda")["same"](np.arange(4, dtype="float32"))
    for flag in (True, False):
        given = (x,) if name == "main" else (x, np.asarray(flag))
        wanted = structir.interpret(Shared, name, *on_host(given))
        for _ in range(3):
            results = executable[name](*given)
            assert_agree(wanted, on_host(results))
            arrays = flattened(results)
            for k, array in enumerate(arrays):
                assert all(array.address != other.address for other in [*arrays[:k], x])
            for array in arrays:
                array.device.copy_in(array.address, np.zeros(array.shape, array.dtype))
    np.testing.assert_array_equal(x.copy_to_host(), np.arange(4))


def flattened(value):
    return [a for item in value for a in flattened(item)] if isinstance(value, tuple) else [value]
