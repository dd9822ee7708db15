"""Exceptions cross the border between processes."""

import copy
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import structir
import structir.numpy as snp
from structir.errors import StructIRError
from structir.script import R

TEXT = '@R.function\ndef main(x: R.Tensor(("n",), "float32")):\n    return R.exp(x)\n'
KERNEL = """
@I.kernel
def f(x: R.Tensor(("n",), "float32"), out: R.Tensor(("n",), "float32")):
    for i in range(n):
        out[i] = x[i]
"""


def raise_in_worker(name):
    """Raises one of the errors below."""
    ERRORS[name]()


ERRORS = {
    "program": lambda: structir.parse("@R.function\ndef main(x):\n    return R.foo(x)"),
    "two errors": lambda: structir.parse(
        "@R.function\ndef main(x):\n    y = R.foo(x)\n    return z"
    ),
    "call": lambda: structir.compile(structir.parse(TEXT))["main"](np.zeros((2, 2), "float32")),
    "size": lambda: structir.trace(lambda x: range(x.shape[0]), R.Tensor(("n",), "float32")),
    "truth": lambda: structir.trace(lambda x: 1 if x else 2, R.Tensor((), "float32")),
    "op": lambda: structir.op("x[i")(lambda x: x),
    "primitive": lambda: structir.schedule(structir.parse(KERNEL)).kernel("f").nothing(),
    "function": lambda: structir.compile(structir.parse(TEXT))["other"],
    "argument": lambda: snp.reshape(np.zeros(3, "float32"), (2, 2)),
}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize(
    "copied", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy]
)
def test_an_error_is_copied_with_its_attributes(name, copied):
    with pytest.raises(StructIRError) as caught:
        ERRORS[name]()
    error = caught.value
    again = copied(error)
    assert type(again) is type(error)
    assert (str(again), again.args) == (str(error), error.args)
    assert again.__dict__.keys() == error.__dict__.keys()


def test_an_error_of_a_worker_process_reaches_its_parent():
    wanted = pytest.raises(structir.errors.ParseError, match=r"unknown op `R\.foo`")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool, wanted:
        pool.submit(raise_in_worker, "program").result()
