"""The compiler runs code only for what a program contains: the files whose code runs for one
product with a bias and a relu."""

import os
import subprocess
import sys

import pytest

import structir
from structir.loops.handle import KernelHandle

MOST_FILES = 100
PROGRAM = """
import os, sys
import structir

ROOT = os.path.dirname(structir.__file__) + os.sep
MAP = '''
@R.function
def main(x: R.Tensor(("n", 64), "float32")):
    return R.sqrt(R.exp(x) * 2.0)
'''
PRODUCT = '''
@R.function
def main(
    x: R.Tensor(("n", 64), "float32"),
    w: R.Tensor((64, 32), "float32"),
    b: R.Tensor((32,), "float32"),
):
    return R.nn.relu(R.matmul(x, w) + b)
'''
module, files, loading = structir.parse(PRODUCT), set(), 0
structir.compile(structir.parse(MAP))


def record(frame, event, _):
    global loading
    code = frame.f_code
    if code.co_name == "<module>":
        loading += {"call": 1, "return": -1}.get(event, 0)
    elif event == "call" and not loading and code.co_filename.startswith(ROOT):
        files.add(code.co_filename[len(ROOT):].replace(os.sep, "/"))


sys.setprofile(record)
structir.compile(module)
sys.setprofile(None)
print("\\n".join(sorted(files)))
"""
# Code for programs with other contents, and for refused primitives; the translator of Python.
OTHERS = (
    *("analysis/donation.py", "analysis/internal_functions.py", "analysis/kernel_dtypes.py"),
    *("analysis/vdevices.py", "runtime/function_forms.py"),
    *("targets/cpu/translated.py", "targets/cpu/translation.py", "targets/cpu/inlined.py"),
    *("loops/rewrite/correlations.py", "loops/rewrite/scatters.py"),
    *("loops/program/views.py", "loops/rewrite/window_sums.py", "runtime/placement.py"),
    *("loops/regions/row_programs.py", "batching/combinators.py", "loops/schedule/primitive.py"),
    *("loops/schedule/refusal.py", "printer/program_printer.py", "ragged/module.py"),
)


@pytest.fixture(scope="module")
def files() -> list[str]:
    environment = {**os.environ, "STRUCTIR_CACHE": "off"}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=True
    )
    return run.stdout.split()


def test_a_product_runs_code_of_few_files(files: list[str]) -> None:
    assert "targets/cpu/products.py" in files  # the library functions are built
    assert len(files) <= MOST_FILES, files


def test_a_product_runs_no_code_for_other_programs(files: list[str]) -> None:
    assert not {*OTHERS} & {*files}


def test_recipes_attempt_no_primitive_that_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = list[str]()
    attempt = KernelHandle.attempt

    def recorded(handle: KernelHandle, name: str, *args: str, **options: bool) -> bool:
        applied = attempt(handle, name, *args, **options)
        refused.extend([] if applied else [name])
        return applied

    monkeypatch.setattr(KernelHandle, "attempt", recorded)
    program = """
@R.function
def main(x: R.Tensor(("n", 61), "float32"), w: R.Tensor((61, 37), "float32")):
    h = R.nn.softmax(R.matmul(x, w))
    return R.sum(R.exp(h) - h, axis=1)
"""
    structir.compile(structir.parse(program))
    assert not {"collapse", "reassociate", "shrink"} & {*refused}
