"""A pass that returns no program is reported with its name."""

from collections.abc import Callable
from typing import Any

import pytest

import structir
from structir.errors import PassError
from structir.passes import Sequential

MODULE = structir.parse("@R.function\ndef main(x: R.Tensor((3,))):\n    return x\n")


@pytest.mark.parametrize("decorate", [structir.module_pass, structir.function_pass])
@pytest.mark.parametrize(("value", "kind"), [(None, "None"), (3, "int"), ((MODULE,), "tuple")])
def test_the_result_must_be_a_program(
    decorate: Callable[[Any], Any], value: Any, kind: str
) -> None:
    def forgetful(program: Any) -> Any:
        return value

    for use in (decorate(forgetful), Sequential([decorate(forgetful)])):
        with pytest.raises(PassError, match=f"forgetful: expected .* found .*{kind}"):
            use(MODULE)
