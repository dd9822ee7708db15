# Written by structir.tools.stubs; tests/tools/test_stubs.py holds it to the package.

from collections.abc import Callable
from typing import Any

from structir.passes.base import Instrument as Instrument
from structir.passes.base import Pass as Pass
from structir.passes.base import PassContext as PassContext
from structir.passes.base import Sequential as Sequential
from structir.passes.base import function_pass as function_pass
from structir.passes.base import module_pass as module_pass
from structir.passes.manager.pipeline import pipeline as pipeline
from structir.passes.manager.printing import Printing as Printing
from structir.passes.manager.statistics import Statistics as Statistics
from structir.passes.manager.timing import Timing as Timing
from structir.passes.manager.trace import Trace as Trace
from structir.passes.manager.verifying import VerifyIR as VerifyIR
from structir.passes.manager.verifying import VerifyResults as VerifyResults

def pass_names() -> list[str]: ...
def add_pass(new_pass: Any) -> Any: ...
def find_pass(name: str) -> Any: ...
def all_passes() -> list[Any]: ...
def __getattr__(name: str) -> Callable[..., Pass]: ...
