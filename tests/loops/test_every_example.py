"""The first example of every op, compiled for all sizes, gives what the interpreter gives, with
operands that are views with strides of their own."""

import numpy as np
import pytest

import structir
from structir.errors import StructIRError
from structir.ir import TensorStructInfo, Var
from structir.ir.dims import sym
from tests.ops.test_every_op import OPS
from tests.runtime.agreement import assert_agree


def backwards(array):
    """The same tensor, with its elements in memory from last to first, every second one."""
    turned = np.repeat(np.flip(array).reshape(-1), 2)[::2].reshape(array.shape)
    return np.flip(turned)


def program(definition, args, keywords):
    """The call as a function of its tensors, their sizes by name, and the tensors."""
    params, values = [], []

    def given(value):
        if isinstance(value, list):
            return [given(item) for item in value]
        if not isinstance(value, np.ndarray):
            return value
        shape = tuple([sym(f"n{len(params)}_{k}") for k in range(value.ndim)])
        params.append(Var(f"x{len(params)}", TensorStructInfo(shape, value.dtype.name)))
        values.append(backwards(value))
        return params[-1]

    operands = tuple(given(a) for a in args)
    call = definition.bind(operands, {n: given(a) for n, a in keywords.items()}, None)
    builder = structir.ir.BlockBuilder()
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(call))
    return builder.get(), values


@pytest.mark.sampled(40)
@pytest.mark.parametrize("name", sorted(OPS))
@pytest.mark.filterwarnings("ignore")
def test_example_compiled_is_interpreted(name):
    for args, keywords in OPS[name].definition.examples[:1]:  # a compilation takes half a second
        module, values = program(OPS[name].definition, args, keywords)
        run = structir.compile(module)["main"]
        for operands in (values, [v[:0] if v.ndim else v for v in values]):
            try:
                wanted = structir.interpret(module, "main", *operands)
            except StructIRError:
                with pytest.raises(StructIRError):
                    run(*operands)
                continue
            assert_agree(wanted, run(*operands))
