"""Messages and texts of random programs whose dims and row variables all have one name.

Each program is built twice: with one name for all, and with a name for each. The first text is the
second under a renaming that maps different variables to different names.
"""

import random
import re
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np
import pytest

import structir
from structir.analysis import check_well_formed
from structir.analysis.axes import tensor
from structir.build import BlockBuilder
from structir.distributed import shard
from structir.errors import StructIRError
from structir.ir import Call, Function, IRModule, Kernel, Tuple, TupleGetItem, Var
from structir.ir.axes import Labelled, RowVar
from structir.ir.dims import evaluate, sym, syms
from structir.ir.struct_info import TensorStructInfo
from structir.script import R
from structir.solver import explain

VARIABLE = re.compile(r"\*?\bvariable\d")


class Sample:
    """Random values whose sizes are `variable0` to `variable4`, or all `n`."""

    def __init__(self, seed: int, one_name: bool) -> None:
        self.random = random.Random(seed)
        names = ["n"] * 5 if one_name else [f"variable{k}" for k in range(5)]
        self.dims = [sym(name) for name in names[:3]]
        self.rows = [RowVar(name) for name in names[3:]]
        self.names = names

    def size(self) -> Any:
        dim = self.random.choice(self.dims)
        return self.random.choice([dim, dim, dim + 1, 2 * dim + self.random.choice(self.dims)])

    def value(self, name: str, *last: int, with_rows: bool = False) -> Var:
        """Returns a variable that begins with every dim, so that each is bound."""
        first = self.random.sample(self.dims, 3)
        sizes = (*first, self.size(), *last)
        if with_rows and self.random.random() < 0.5:
            sizes = (self.random.choice(self.rows), *sizes)
        if with_rows and self.random.random() < 0.3:
            sizes = (*sizes[:-1], Labelled(sizes[-1], "features"))
        return Var(name, tensor(sizes, "float32"))


def operands(sample: Sample) -> Any:
    x, y = (sample.value(name, last, with_rows=True) for name, last in (("x", 3), ("y", 4)))
    return sample.random.choice([R.add, R.matmul, lambda a, b: R.concat(Tuple((a, b)), axis=0)])(
        x, y
    )


def cast(sample: Sample) -> Any:
    x, target = sample.value("x", 3, with_rows=True), sample.value("y", 4).struct_info
    builder = BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.match_cast(x, target))


def module_call(sample: Sample) -> Any:
    param, x = sample.value("p", 4, with_rows=True), sample.value("x", 3, with_rows=True)
    builder = BlockBuilder()
    with builder.function("helper", [param]):
        builder.emit_func_output(param)
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(Call(builder.global_var("helper"), (x,))))


def exponential(x: Var, *others: Var, ret: TensorStructInfo | None = None) -> IRModule:
    builder = BlockBuilder()
    with builder.function("main", [x, *others]):
        builder.emit_func_output(builder.emit(R.exp(x)), ret)
    return builder.get()


def declared_result(sample: Sample) -> Any:
    x, y = sample.value("x", 3), sample.value("y", 4)
    assert isinstance(y.struct_info, TensorStructInfo)
    exponential(x, y, ret=y.struct_info)


def function_of(sample: Sample) -> tuple[Function, Any]:
    x, y = sample.value("x", 3), sample.value("y", 4)
    function = exponential(x, y)["main"]
    assert isinstance(function, Function)
    return function, y.struct_info


def changed_result(sample: Sample) -> Any:
    function, info = function_of(sample)
    check_well_formed(IRModule({"main": attrs.evolve(function, ret_struct_info=info)}))


def changed_variable(sample: Sample) -> Any:
    function, info = function_of(sample)
    (block,) = function.body.blocks
    (binding,) = block.bindings
    var = Var("changed", info)
    block = attrs.evolve(block, bindings=(attrs.evolve(binding, var=var),))
    body = attrs.evolve(function.body, blocks=(block,), body=var)
    check_well_formed(IRModule({"main": attrs.evolve(function, body=body, ret_struct_info=info)}))


def tuple_index(sample: Sample) -> Any:
    x = Var("x", Tuple((sample.value("a"), sample.value("b"))).struct_info)
    builder = BlockBuilder()
    with builder.function("main", [x]):
        builder.emit(TupleGetItem(x, 7))


def open_ranks(sample: Sample) -> IRModule:
    x, y = sample.value("x"), sample.value("y")
    unknown = Var("u", TensorStructInfo(None, "float32", ndim=4))
    builder = BlockBuilder()
    with builder.function("main", [x, y, unknown]):
        first, second = (builder.emit(R.matmul(v, unknown)) for v in (x, y))
        builder.emit_func_output(builder.emit(R.add(first, second)))
    return builder.get()


def report(sample: Sample) -> Any:
    solved = explain(open_ranks(sample))
    text = f"{solved} {solved.data() if not solved.conflicts else ''}"
    return re.sub(r"\?\d+", "?", text)  # the numbers of open sizes


def narrowed(sample: Sample) -> Any:
    return structir.infer(open_ranks(sample), refine="nothing").script()


def arguments(sample: Sample) -> Any:
    x = sample.value("x")
    return structir.interpret(exponential(x), "main", np.zeros((2, 3, 4, 1), "float32"))


def compiled_arguments(sample: Sample) -> Any:
    other = sample.random.randrange(1000)  # equal functions are compiled once
    x = sample.value("x", other)
    return structir.compile(exponential(x))["main"](np.zeros((2, 3, 4, 1, other), "float32"))


def cast_at_run_time(sample: Sample) -> Any:
    x, first = sample.value("x"), sample.size()
    second = sample.size() + sample.random.choice(sample.dims)
    builder = BlockBuilder()
    y = Var("y", TensorStructInfo(None, "float32", ndim=2))
    with builder.function("main", [x, y]):
        builder.emit_func_output(builder.match_cast(y, tensor((first, second), "float32")))
    sizes = {symbol: 2 for dim in sample.dims for symbol in syms(dim)}
    assert isinstance(x.struct_info, TensorStructInfo) and isinstance(x.struct_info.dims, tuple)
    shape = [evaluate(size, sizes) for size in x.struct_info.dims]
    arrays = (np.zeros(shape, "float32"), np.zeros((evaluate(first, sizes), 1), "float32"))
    return structir.interpret(builder.get(), "main", *arrays)


def kernel_call(sample: Sample) -> Any:
    name = sample.names[4]
    text = f"""@I.kernel
def scaled(x: R.Tensor(("{name}", 3), "float32"), out: R.Tensor(("{name}",), "float32")):
    for i in range({name}):
        out[i] = x[i, 0]
"""
    kernel = structir.parse(text)["scaled"]
    assert isinstance(kernel, Kernel)
    sizes = sample.random.choices(sample.dims, k=2)
    x = Var("x", tensor((*sample.dims, 3), "float32"))
    y = Var("y", tensor((sizes[0], sample.random.choice([3, 4])), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x, y]):
        operand = sample.random.choice([x, y])
        result = tensor((sizes[1],), "float32")
        called = R.call_kernel(builder.kernel(kernel), (operand,), out_sinfo=result)
        builder.emit(called)


def bound_parameter(sample: Sample) -> Any:
    module = exponential(sample.value("x", 3, with_rows=True), sample.value("y", 4))
    shape = [sample.random.randint(1, 2) for _ in range(4)]
    return structir.passes.BindParams(values={"x": np.zeros((*shape, 4), "float32")})(module)


def sharded_arguments(sample: Sample) -> Any:
    x = Var("x", tensor((*sample.dims, sample.size() + sample.dims[2], 3), "float32"))
    shape = [sample.random.randint(1, 2) for _ in range(4)]
    return shard(exponential(x), workers=2)(np.zeros((*shape, 3), "float32"))


ERRORS: Sequence[Callable[[Sample], Any]] = [
    operands,
    cast,
    module_call,
    declared_result,
    changed_result,
    changed_variable,
    tuple_index,
    report,
    narrowed,
    arguments,
    compiled_arguments,
    cast_at_run_time,
    kernel_call,
    bound_parameter,
    sharded_arguments,
]


def text_of(kind: Callable[[Sample], Any], sample: Sample) -> str:
    """Returns the message of the error, or the text of the result."""
    try:
        return str(kind(sample))
    except StructIRError as error:
        return str(error)


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_different_variables_have_different_names_in_a_message(kind: Any) -> None:
    compared = 0
    for seed in range(40):
        text, distinct = (text_of(kind, Sample(seed, one_name)) for one_name in (True, False))
        pattern = "".join(
            re.escape(part) if k % 2 == 0 else r"(\*?n(?:_\d+)?)"
            for k, part in enumerate(re.split(r"(\*?\bvariable\d)", distinct))
        )
        match = re.fullmatch(pattern, text)
        assert match, f"{text}\n{distinct}"
        pairs = set(zip(VARIABLE.findall(distinct), match.groups(), strict=True))
        names = [name for _, name in pairs]
        assert len(names) == len(set(names)), f"{text}\n{distinct}"
        compared += len({variable for variable, _ in pairs}) > 1
    assert compared > 5


@pytest.mark.parametrize("seed", range(10))
def test_text_of_a_program_with_variables_of_one_name_parses_back(seed: int) -> None:
    sample = Sample(seed, one_name=True)
    sizes = [sample.random.sample(sample.dims, 3) for _ in range(2)]
    param, x = (Var(name, tensor(tuple(s), "float32")) for name, s in zip("px", sizes, strict=True))
    y = sample.value("y")
    builder = BlockBuilder()
    with builder.function("helper", [param]):
        builder.emit_func_output(builder.emit(R.sum(param, axis=0)))
    with builder.function("main", [x, y]):
        called = builder.emit(Call(builder.global_var("helper"), (x,)))
        builder.emit_func_output(Tuple((builder.emit(R.exp(called)), y)))
    module = builder.get()
    for changed in (module, structir.passes.InlineFunctions()(module), structir.infer(module)):
        assert structir.structural_equal(structir.parse(changed.script()), changed)
