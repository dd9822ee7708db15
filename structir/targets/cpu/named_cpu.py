"""The features of a CPU by its name, queried from LLVM in a child process.

llvmlite has no such query. LLVM inlines a function only if the caller's CPU has all features that
the callee requires: there is one callee per feature, and those inlined are the features. The child
process is needed because LLVM writes an unknown name to stderr only, and ends the process for a CPU
without 64-bit code.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from difflib import get_close_matches

import llvmlite.binding as llvm

PLAINEST = {"x86_64": "x86-64"}  # the baseline CPU of the callees, besides their feature
UNKNOWN = "is not a recognized processor"
UNKNOWN_FEATURE = "is not a recognized feature"


class UnknownCPUError(ValueError):
    """LLVM has no code generation for a CPU of this name, or with this feature."""

    def __init__(self, variable: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.variable, self.message, self.hint = variable, message, hint


def features_in_child(name: str, features: str) -> frozenset[str]:
    """Returns the features of the named CPU with `features` added or removed."""
    command = [sys.executable, "-P", __file__, name, features]  # `math` is not the package here
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode or UNKNOWN in done.stderr or name == "help":
        message = f"expected a CPU that LLVM has code generation for, found {name!r}"
        close = get_close_matches(name, KNOWN, n=1)
        suggested = close[0] if close else llvm.get_host_cpu_name()
        raise UnknownCPUError("NUMBA_CPU_NAME", message, f"`NUMBA_CPU_NAME={suggested}`")
    if UNKNOWN_FEATURE in done.stderr:
        feature = done.stderr.split("'")[1]
        message = f"expected features that LLVM knows, found {feature!r}"
        raise UnknownCPUError("NUMBA_CPU_FEATURES", message, f"remove `{feature}`")
    return frozenset(done.stdout.split())


KNOWN = (
    *("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "nehalem", "sandybridge", "haswell"),
    *("skylake", "skylake-avx512", "cascadelake", "icelake-server", "sapphirerapids"),
    *("znver1", "znver2", "znver3", "znver4", "znver5", "neoverse-n1", "neoverse-v1"),
    *("neoverse-v2", "apple-m1", "apple-m2", "apple-m3", "cortex-a72", "generic"),
)


def features_of(triple: str, name: str, features: str, asked: Iterable[str]) -> frozenset[str]:
    """Returns those of some features that a CPU has."""
    target = llvm.Target.from_triple(triple)
    machine = target.create_target_machine(cpu=name, features=features)
    module = llvm.parse_assembly(_text(triple, names := list(asked)))
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    builder.getModulePassManager().run(module, builder)
    called = {function.name for function in module.functions}
    return frozenset(f for number, f in enumerate(names) if f"requires{number}" not in called)


def _text(triple: str, features: list[str]) -> str:
    lines = [f'target triple = "{triple}"']
    cpu = PLAINEST.get(triple.partition("-")[0], "generic")
    for number, feature in enumerate(features):
        lines += [
            f"define internal i32 @requires{number}(i32 %x) #{number} {{",
            f"%y = add i32 %x, {number + 1}",
            "ret i32 %y }",
            f"define i32 @calls{number}(i32 %x) {{",
            f"%y = call i32 @requires{number}(i32 %x)",
            "ret i32 %y }",
            f'attributes #{number} = {{ "target-cpu"="{cpu}" "target-features"="+{feature}" }}',
        ]
    return "\n".join(lines)


def main() -> None:
    """Prints the features of the CPU that the command line names."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    name, features = sys.argv[1:]
    asked = llvm.get_host_cpu_features()
    print(*sorted(features_of(llvm.get_process_triple(), name, features, asked)))


if __name__ == "__main__":
    main()
