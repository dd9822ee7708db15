"""The caller owns results: they share no memory with constants, arguments or one another."""

from functools import partial
from random import Random

import numpy as np
import pytest

import structir
from structir.errors import ShapeMismatchError
from structir.interpret import register_extern
from structir.ir import BlockBuilder, Constant, Var
from structir.script import I, R
from structir.tools.hostile.kinds.aliasing import arrays_in, check_calls

LARGE = np.arange(64, dtype="float32").reshape(4, 16)  # stands beside the text, not in it


@I.ir_module
class Views:
    @R.function
    def parameter(x: R.Tensor((4, 3), "float32")):
        return x

    @R.function
    def constant(x: R.Tensor((4, 3), "float32")):
        return R.const([1.0, 2.0], "float32")

    @R.function
    def flat(x: R.Tensor(("n", 3), "float32")):
        return R.reshape(x, (-1,))

    @R.function
    def many(x: R.Tensor(("n", 3), "float32")):
        one = R.expand_dims(x, 0)
        two = R.squeeze(one, 0)
        c = R.const([[1.0, 2.0]], "float32")
        return (one, (two, R.flatten(x)), R.flatten(c), R.squeeze(c, 0), R.permute_dims(x))

    @R.function
    def moved(x: R.Tensor((4, 3), "float32")):
        a = R.strided_slice(x, [0], [0], [4])
        b = R.broadcast_to(R.const(2.0, "float32"), (4, 3))
        return (a, R.memory.view(x, (12,)), b, R.broadcast_to(x, (2, 4, 3)))

    @R.function
    def twice(x: R.Tensor((4, 3), "float32")):
        a = R.negative(x)
        return (a, a, R.reshape(a, (3, 4)), (x, x), a)

    @R.function
    def chosen(x: R.Tensor((4, 3), "float32")):
        c = R.const([[1.0, 2.0, 3.0]], "float32")
        if R.less(R.sum(x), R.const(3.0, "float32")):
            both = (R.reshape(x, (3, 4)), c)
        else:
            both = (R.reshape(R.flatten(x), (3, 4)), R.permute_dims(R.reshape(c, (3, 1))))
        return (both, both[0], x)

    @R.function
    def called(x: R.Tensor((4, 3), "float32")):
        a = Views.parameter(x)
        b = Views.chosen(a)
        return (a, b, Views.constant(x))

    @R.function(pure=False)
    def packed(x: R.Tensor((4, 3), "float32")):
        y = R.call_packed("test.itself", x, sinfo_args=R.Tensor((4, 3), "float32"))
        return (x, y)

    @R.function
    def any_rank(x: R.Tensor(("*s",), "float32")):
        return (x, x)


@pytest.fixture(scope="module", autouse=True)
def itself():
    register_extern("test.itself", lambda x: x)


@pytest.fixture(scope="module", params=["interpreted", "compiled", "loaded"])
def functions(request, tmp_path_factory):
    if request.param == "interpreted":
        return {name: partial(structir.interpret, Views, name) for name in Views.functions}
    executable = structir.compile(Views)
    if request.param == "loaded":
        path = tmp_path_factory.mktemp("saved") / "views.sir"
        executable.save(path)
        executable = structir.load(path)
    return executable


@pytest.mark.parametrize("name", list(Views.functions))
@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_views_and_constants_as_results(functions, name, scale):
    text = Views.script()
    x = scale * np.arange(12, dtype="float32").reshape(4, 3)
    expected = [a.copy() for a in arrays_in(structir.interpret(Views, name, x))]
    check_calls(functions[name], [x], expected, times=4)
    assert Views.script() == text


def large_constant(data):
    builder = BlockBuilder()
    x = Var("x", structir.parse_struct_info('R.Tensor((2,), "float32")'))
    with builder.function("main", [x]):
        builder.emit_func_output(R.tuple(R.const(data), x))
    return builder.get()


def test_a_program_does_not_change_with_the_array_that_it_was_built_from(tmp_path):
    data, x = LARGE.copy(), np.ones(2, "float32")
    module = large_constant(data)
    executable, text = structir.compile(module), module.script()
    data[...] = 0
    structir.save(module, tmp_path / "program.sir")
    for each in (module, structir.load(tmp_path / "program.sir")):
        check_calls(partial(structir.interpret, each, "main"), [x], [LARGE, x])
        check_calls(structir.compile(each)["main"], [x], [LARGE, x])
        assert each.script() == text
    check_calls(executable["main"], [x], [LARGE, x])
    structir.save(module, tmp_path / "again.sir")
    again = structir.load(tmp_path / "again.sir")
    check_calls(partial(structir.interpret, again, "main"), [x], [LARGE, x])


@pytest.mark.parametrize("wrap", [lambda a: a, lambda a: a[:], lambda a: a.T, np.ndarray.view])
def test_constants_are_read_only_and_copied_where_they_could_be_written_to(wrap):
    data = LARGE.copy()
    view = wrap(data)
    view.flags.writeable = view is data
    constant = Constant(view)
    assert not constant.data.flags.writeable
    assert not np.shares_memory(constant.data, data)
    assert Constant(constant.data).data is constant.data


@pytest.mark.parametrize("run", ["interpreted", "compiled"])
def test_memory_of_other_libraries_is_copied(run):
    class Foreign:
        def __init__(self, data):
            self.data = data

        def __dlpack__(self, **options):
            return self.data.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.data.__dlpack_device__()

    function = structir.compile(Views)["parameter"]
    if run == "interpreted":
        function = partial(structir.interpret, Views, "parameter")
    data = np.arange(12, dtype="float32").reshape(4, 3)
    for make in (Foreign, memoryview):
        result = function(make(data))
        np.testing.assert_array_equal(result, data)
        assert not np.shares_memory(result, data)


def test_out_may_overlap_arguments_and_not_other_results():
    @I.ir_module
    class Sums:
        @R.function
        def main(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")):
            a = R.add(x, y)
            return (a, R.subtract(x, y), a, R.flip(x, 0))

    run, rng = structir.compile(Sums)["main"], Random(1)
    for _ in range(40):
        memory = np.arange(40, dtype="float32")
        x, y, *out = (memory[s : s + 8] for s in (rng.randrange(33) for _ in range(6)))
        wanted = [x + y, x - y, x + y, x[::-1].copy()]
        if any(np.shares_memory(out[k], other) for k in range(4) for other in out[:k]):
            before = memory.copy()
            with pytest.raises(ShapeMismatchError, match="expected arrays that share no memory"):
                run(x, y, out=out)
            np.testing.assert_array_equal(memory, before)
            continue
        for result, value in zip(run(x, y, out=out), wanted, strict=True):
            np.testing.assert_array_equal(result, value)
