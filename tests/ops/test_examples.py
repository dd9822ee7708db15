"""The examples of every op as programs: printed, parsed, interpreted and compiled."""

import pytest

import structir
from structir.ir import structural_equal
from tests.ops.built_in import BUILT_IN_OPS
from tests.ops.calls import called, program
from tests.runtime.agreement import assert_agree, copied

EXAMPLES = {name: op.definition.examples for name, op in BUILT_IN_OPS.items()}
every_op = pytest.mark.parametrize("name", sorted(EXAMPLES))


def test_every_op_has_an_example():
    without = [name for name, examples in EXAMPLES.items() if not examples]
    assert without == [], "add one below the op: `name.example(f32[3, 7], axis=1)`"


@every_op
def test_text_round_trip(name):
    for args, keywords in EXAMPLES[name]:
        module, _ = program(name, *args, **keywords)
        assert structural_equal(structir.parse(module.script()), module)


@pytest.mark.sampled(35)
@every_op
@pytest.mark.filterwarnings("ignore")
def test_interpreter_and_compiler_match_the_reference(name):
    for args, keywords in EXAMPLES[name]:
        call, values = called(name, *args, **keywords)
        wanted = call.op.definition.reference(call, values)
        module, inputs = program(name, *args, **keywords)
        assert_agree(wanted, structir.interpret(module, "main", *copied(inputs)))
        if (args, keywords) is not EXAMPLES[name][0]:  # compiled in tests/loops/test_every_example
            assert_agree(wanted, structir.compile(module)["main"](*copied(inputs)))
