"""`kernel()` without a name needs a program with one kernel."""

import re

import pytest

import structir
from structir.errors import DiagnosticError

MODULE = structir.parse("""
@R.function
def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
    y = R.nn.softmax(R.matmul(x, w))
    return R.sum(y)
""")


def test_several_kernels_are_listed():
    schedule = structir.schedule(MODULE)
    with pytest.raises(DiagnosticError, match="expected one kernel, found 2") as caught:
        schedule.kernel()
    names = re.findall(r's\.kernel\("(\w+)"\)', caught.value.diagnostics[0].hint)
    assert len(names) == 2
    for name in names:
        schedule.kernel(name)
