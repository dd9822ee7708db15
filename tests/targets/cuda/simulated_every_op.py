"""Every op that has a kernel for a GPU gives on the simulator what the interpreter gives; another
one is refused before anything runs."""

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError, StructIRError
from structir.passes import UpdateVDevice
from structir.tools.op_page import device_backend, example_call
from tests.loops.test_every_example import program
from tests.ops.test_every_op import OPS
from tests.runtime.agreement import assert_agree


def on_host(value):
    if isinstance(value, tuple):
        return tuple(on_host(item) for item in value)
    return value.copy_to_host() if hasattr(value, "copy_to_host") else value


@pytest.mark.parametrize("name", sorted(OPS))
@pytest.mark.filterwarnings("ignore")
def test_simulated_is_interpreted(name):
    definition = OPS[name].definition
    for args, keywords in definition.examples[:1]:
        module, values = program(definition, args, keywords)
        try:
            on_device = UpdateVDevice(old="llvm", new="cuda")(module)
            run = structir.compile(on_device, target="cuda")["main"]
        except DiagnosticError as error:
            assert "has no CUDA kernel" in str(error)
            assert device_backend(definition, example_call(definition)) == "none" or free(module)
            continue
        for operands in (values, [v[:0] if v.ndim else v for v in values]):
            try:
                wanted = structir.interpret(module, "main", *operands)
            except StructIRError:
                with pytest.raises(StructIRError):
                    run(*operands)
                continue
            assert_agree(wanted, on_host(run(*operands)))


def free(module):
    """Whether sizes are free here that the page of all ops has as numbers."""
    return any(not isinstance(d, int) for p in module["main"].params for d in p.struct_info.dims)


def test_most_ops_have_a_kernel():
    without = [
        name
        for name, op in OPS.items()
        if device_backend(op.definition, example_call(op.definition)) == "none"
    ]
    assert len(without) <= 0.15 * len(OPS), without


def test_elements_of_every_dtype():
    for dtype in ("float64", "float16", "bfloat16", "int8", "uint16", "int64", "bool"):
        numbers = np.arange(12).reshape(3, 4) % (2 if dtype == "bool" else 7)
        x = numbers.astype(structir.ir.dtype.numpy_dtype(dtype))
        text = f"""
@R.function
def main(x: R.Tensor(("n", "m"), "{dtype}")):
    return R.max(x, axis=1), R.min(x, axis=0), R.permute_dims(x)
"""
        module = structir.parse(text)
        wanted = structir.interpret(module, "main", x)
        assert_agree(wanted, on_host(structir.compile(module, target="cuda")["main"](x)), dtype)
