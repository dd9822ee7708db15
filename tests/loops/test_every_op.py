"""Every op with programs among the conformance cases: compiled results equal interpreted ones."""

import numpy as np
import pytest

import structir
from structir.errors import StructIRError
from tests.ops.test_every_op import OPS, PROGRAMS, sizes_of, value_for
from tests.runtime.agreement import assert_agree, copied

MOST_PROGRAMS = 2


def spread(cases):
    """A few cases from everywhere among many."""
    return cases[:: max(1, len(cases) // MOST_PROGRAMS)][:MOST_PROGRAMS]


@pytest.mark.sampled(30)
@pytest.mark.parametrize("name", sorted(OPS))
@pytest.mark.filterwarnings("ignore")
def test_compiled_is_interpreted(name):
    rng = np.random.default_rng(5)
    for case in spread(PROGRAMS[name]):
        module = structir.parse(case["script"])
        entry, function = next(iter(module.functions.items()))
        infos = [p.struct_info for p in function.params]
        executable = structir.compile(module)
        for sizes in sizes_of(infos):
            args = tuple(value_for(i, sizes, rng) for i in infos)
            if any(a is None for a in args):
                continue
            try:
                wanted = structir.interpret(module, entry, *copied(args))
            except (StructIRError, ZeroDivisionError):
                continue  # what the interpreter refuses may be legal in closed form
            assert_agree(wanted, executable[entry](*copied(args)))
