"""The vdevices of a program choose the target of its compilation; none is dropped silently."""

import re

import numpy as np
import pytest

import structir
from structir import passes
from structir.errors import DiagnosticError

X = np.arange(3, dtype="float32")


def program(x, y, value):
    return structir.parse(f"""
@R.function
def main(x: R.Tensor(("n",), "float32", "{x}"), y: R.Tensor(("n",), "float32", "{y}")):
    z = {value}
    return z
""")


@pytest.mark.parametrize(
    ("x", "y", "value"),
    [
        ("llvm", "llvm", "R.add(x, y)"),
        ("c", "c", "R.add(x, y)"),
        ("llvm", "llvm:1", 'R.add(x, R.to_vdevice(y, "llvm"))'),
    ],
)
@pytest.mark.parametrize("options", [{}, {"target": "cpu"}])
def test_values_on_the_cpu_run_there(x, y, value, options):
    module = program(x, y, value)
    np.testing.assert_array_equal(structir.compile(module, **options)(X, X + 1), 2 * X + 1)
    np.testing.assert_array_equal(structir.interpret(module, "main", X, X + 1), 2 * X + 1)


@pytest.mark.parametrize(
    ("x", "y", "options"),
    [
        ("cuda", "cuda", {"target": "cpu"}),
        ("llvm", "llvm", {"target": "cuda"}),
        ("llvm", "cuda", {}),
        ("cuda", "cuda:1", {}),
        ("metal", "metal", {}),
        ("llvm:0:scratch", "llvm:0:scratch", {}),
    ],
)
def test_a_device_that_the_target_lacks_is_an_error_with_an_edit(x, y, options):
    module = program(x, y, "(x, R.exp(y))")
    with pytest.raises(DiagnosticError) as caught:
        structir.compile(module, **options)
    assert caught.value.code == "E1006"
    assert caught.value.diagnostics[0].span is not None
    edit = re.search(r"`(passes\..*)\(module\)`", str(caught.value))[1]
    moved = eval(edit, {"passes": passes})(module)
    assert moved is not module


def test_kernels_and_functions_with_vdevices_run():
    module = structir.parse("""
@I.ir_module
class Module:
    @I.kernel
    def twice(x: R.Tensor(("n",), "float32", "llvm"), y: R.Tensor(("n",), "float32", "llvm")):
        for i in range(n):
            y[i] = x[i] * 2.0

    @R.function
    def helper(x: R.Tensor(("n",), "float32", "llvm"), c: R.Tensor((), "bool")):
        if c:
            y = R.call_kernel(cls.twice, (x,), out_sinfo=R.Tensor((n,), "float32", "llvm"))
        else:
            y = R.to_vdevice(x, "llvm")
        return (y, y)

    @R.function
    def main(x: R.Tensor(("n",), "float32", "llvm")):
        return cls.helper(x, R.const(True, "bool"))[0]
""")
    np.testing.assert_array_equal(structir.compile(module)["main"](X), 2 * X)
    on_cuda = passes.UpdateVDevice(old="llvm", new="cuda:2")(module)
    assert "llvm" not in on_cuda.script()
    assert structir.structural_equal(structir.parse(on_cuda.script()), on_cuda)
    back = passes.UpdateVDevice(old="cuda:2", new="llvm")(on_cuda)
    assert structir.structural_equal(back, module)


def test_values_on_cuda_choose_the_target(monkeypatch):
    targets = []
    factory = lambda target: lambda module: targets.append(target)  # noqa: E731
    monkeypatch.setattr("structir.targets.compile._factory_of", factory)
    structir.compile(program("cuda", "cuda", "R.add(x, y)"))
    assert targets == ["cuda"]
