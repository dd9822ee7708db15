"""Functions of 12,500 to 100,000 bindings go through everything, flat and in little memory."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MEMORY = 2 << 30  # bytes of address space, whatever is loaded included
COUNT = 100_000

# Run in a process of its own, which may not have more memory and counts every frame of recursion.
PRELUDE = f"""
import resource
import sys

import structir
from structir.analysis import binding_struct_infos, check_well_formed
from structir.passes import CommonSubexpressionElimination, DeadCodeElimination, TopologicalSort

resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))
sys.setrecursionlimit(300)


def text(count, lines):
    head = '@R.function\\ndef main(x: R.Tensor(("n", "m"), "float32")):\\n    n = T.int64()\\n'
    body = [lines[k % len(lines)].format(k=k, last=k - 1) for k in range(1, count)]
    return head + "    v0 = R.exp(x)\\n" + "\\n".join(body) + f"\\n    return v{{count - 1}}\\n"
"""

PLAIN = """
source = text({count}, ["    v{{k}} = R.add(v{{last}}, x)", "    v{{k}} = R.exp(v{{last}})"])
module = structir.parse(source)
printed = module.script()
again = structir.parse(printed)
assert structir.structural_equal(module, again)
assert structir.structural_hash(module) == structir.structural_hash(again)
check_well_formed(again)
infos = binding_struct_infos(again["main"])
assert len(infos) == {count}
assert len(set(infos.values())) == 1
"""

BUILT = """
from structir.ir import BlockBuilder, TensorStructInfo, Var
from structir.script import R

builder = BlockBuilder()
n = structir.SymVar("n")
x = Var("x", TensorStructInfo((n, 4), "float32"))
with builder.function("main", [x]):
    value = x
    with builder.dataflow():
        for _ in range({count}):
            value = builder.emit(R.add(value, x))
        value = builder.emit_output(value)
    builder.emit_func_output(value)
module = builder.get()
check_well_formed(module)
for transform in (DeadCodeElimination, CommonSubexpressionElimination, TopologicalSort):
    assert len(transform()(module)["main"].bindings()) == {count} + 1
shortest = TopologicalSort(order="depth_first")(module)
assert structir.structural_equal(shortest, module)
"""

CASTS = """
lines = [
    "    v{{k}} = R.match_cast(v{{last}}, R.Tensor((n, 4), 'float32'))",
    "    v{{k}} = R.reshape(v{{last}}, (n, 4))",
    "    t{{k}} = (v{{last}}, (x, v{{last}}))\\n    v{{k}} = t{{k}}[1][1]",
]
module = structir.parse(text({count}, lines))
again = structir.parse(module.script())
assert structir.structural_equal(module, again)
check_well_formed(again)
"""

BRANCHES = """
lines = [
    "    if flag:\\n        a{{k}} = R.exp(v{{last}})\\n        v{{k}} = R.add(a{{k}}, x)\\n"
    "    else:\\n        v{{k}} = v{{last}}",
]
source = text({count}, lines).replace("(x: ", "(flag: R.Tensor((), 'bool'), x: ")
module = structir.parse(source)
again = structir.parse(module.script())
assert structir.structural_equal(module, again)
check_well_formed(again)
assert len(DeadCodeElimination()(again)["main"].bindings()) == {count}
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("program", "count"),
    [
        pytest.param(PLAIN, COUNT, id="calls"),
        pytest.param(BUILT, COUNT // 2, id="built"),
        pytest.param(CASTS, COUNT // 10, id="casts and tuples"),
        pytest.param(BRANCHES, COUNT // 25, id="branches"),
    ],
)
def test_a_large_function(program: str, count: int) -> None:
    script = PRELUDE + program.format(count=count)
    run = [sys.executable, "-c", script]
    finished = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr[-3000:]
