"""Which loops of kernels may run in any order."""

import pytest

import structir
from structir.targets.cuda.independent import independent_loop

HEAD = """
@I.kernel
def main(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("n", "m"), "float32")):
"""
APART = {
    "a map": "for i in range(n):\n for j in range(m):\n  y[i, j] = x[i, j] * 2",
    "rows": "for i in range(n):\n s = 0.0\n for j in range(m):\n  s += x[i, j]\n  y[i, j] = s",
    "columns": "for j in range(m):\n for i in range(n):\n  y[i, j] = x[n - 1 - i, j]",
    "a row of its own again": "for i in range(n):\n for j in range(1, m):\n  y[i, j] = y[i, j - 1]",
    "both ways": "for i in range(n):\n if x[i, 0] > 0:\n  a = 1.0\n else:\n  a = 2.0\n y[i, 0] = a",
    "an end inside": "for i in range(n):\n while x[i, 0] > 0:\n  if n > 3:\n   break\n y[i, 0] = 1",
}
MEETING = {
    "a scan": "for i in range(1, n):\n for j in range(m):\n  y[i, j] = y[i - 1, j] + x[i, j]",
    "one place": "for i in range(n):\n y[0, 0] = x[i, 0]",
    "places of data": "for i in range(n):\n y[min(i, 1), 0] = x[i, 0]",
    "another axis": "for i in range(n):\n y[i, 0] = x[i, 0]\n y[0, min(i, m - 1)] = 1",
    "an end": "for i in range(n):\n if x[i, 0] > 0:\n  break\n y[i, 0] = 1",
    "a value of before": "t = 0.0\nfor i in range(n):\n t += x[i, 0]\n y[i, 0] = t",
    "two loops": "for i in range(n):\n y[i, 0] = 1\nfor j in range(n):\n y[j, 0] = 2",
    "a step": "for i in range(0, n, 2):\n y[i, 0] = 1",
}


def kernel(body):
    lines = [f"    {line}" for line in body.split("\n")]
    return structir.parse(HEAD + "\n".join(lines) + "\n")["main"]


@pytest.mark.parametrize("body", APART.values(), ids=APART)
def test_independent_iterations(body):
    assert independent_loop(kernel(body)) is not None


@pytest.mark.parametrize("body", MEETING.values(), ids=MEETING)
def test_iterations_that_may(body):
    assert independent_loop(kernel(body)) is None
