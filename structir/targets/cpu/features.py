"""The CPU for which code is generated, and its features; math functions and matrix product tiles
depend on them.

The default is the host CPU. NUMBA_CPU_NAME selects another one, and NUMBA_CPU_FEATURES changes its
features.
"""

from __future__ import annotations

import os
from functools import cache

import llvmlite.binding as llvm

from structir.errors import Diagnostic, DiagnosticError
from structir.lazy import lazy_module

named_cpu = lazy_module("structir.targets.cpu.named_cpu")

NAME, FEATURES = "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"


# Arithmetic on float16 without conversions. LLVM would fuse a product and a sum of two ops in
# float16, though the product is rounded.
FLOAT16_ARITHMETIC = {"x86_64": "avx512fp16", "aarch64": "fullfp16", "arm64": "fullfp16"}


@cache
def processor() -> tuple[str, str]:
    """Returns the name of the CPU, and the features that differ from the defaults of this name:
    arithmetic on float16 is always switched off."""
    name, features = os.environ.get(NAME), os.environ.get(FEATURES)
    if name in (None, "", "host"):
        name = llvm.get_host_cpu_name()
        if features is None:
            features = llvm.get_host_cpu_features().flatten()
    left_out = FLOAT16_ARITHMETIC.get(llvm.get_process_triple().partition("-")[0])
    kept = [f for f in (features or "").split(",") if f and f[1:] != left_out]
    return str(name), ",".join([*kept, f"-{left_out}"] if left_out else kept)


def is_host() -> bool:
    """Whether code is generated for the CPU of this machine, with all its features."""
    return os.environ.get(NAME) in (None, "", "host") and os.environ.get(FEATURES) is None


@cache
def cpu_features() -> frozenset[str]:
    """Returns the names of the CPU's features.

    Raises DiagnosticError if LLVM does not know the CPU that the environment names.
    """
    name, features = processor()
    if is_host():
        return frozenset(f[1:] for f in features.split(",") if f.startswith("+"))
    try:
        features_by_name: frozenset[str] = named_cpu.features_in_child(name, features)
        return features_by_name
    except named_cpu.UnknownCPUError as error:
        message, hint = f"{error.variable}: {error.message}", error.hint
        raise DiagnosticError(Diagnostic(message, hint=hint)) from None


# Features whose instructions LLVM emits only for explicit intrinsics, which no kernel calls.
NAMES_OF_UNUSED = """
adx aes amx-avx512 amx-bf16 amx-complex amx-fp16 amx-fp8 amx-int8 amx-movrs amx-tf32 amx-tile
amx-transpose avx512vp2intersect cldemote clflushopt clwb clzero cmpccxadd enqcmd fsgsbase hreset
invpcid kl lwp movdir64b movdiri movrs mwaitx pclmul pconfig pku prefetchi prfchw ptwrite raoint
rdpid rdpru rdrnd rdseed rtm serialize sgx sha sha512 shstk sm3 sm4 tsxldtrk uintr usermsr vaes
vpclmulqdq waitpkg wbnoinvd widekl xsave xsavec xsaveopt xsaves
"""
UNUSED = frozenset(NAMES_OF_UNUSED.split())


@cache
def check_host() -> None:
    """Raises DiagnosticError if code for the CPU that the environment names cannot run on the
    host."""
    name, features = processor()
    if is_host():
        return
    here = {f for f, has in llvm.get_host_cpu_features().items() if has}
    missing = sorted(cpu_features() - here - UNUSED)
    if missing:
        host = llvm.get_host_cpu_name()
        message = f"NUMBA_CPU_NAME: expected a CPU whose code runs on this one, {host}, found "
        message += f"{name}, which has {', '.join(missing)}"
        hint = f"`NUMBA_CPU_NAME={host}`, or unset it, to run programs; other CPUs compile only"
        written = [f for f in missing if f"+{f}" in features.split(",")]
        if written:
            message = f"NUMBA_CPU_FEATURES: expected features of this CPU, found {written[0]}"
            hint = f"remove `+{written[0]}`"
        raise DiagnosticError(Diagnostic(message, hint=hint))


@cache
def has_wide_vectors() -> bool:
    """Whether the CPU has 512-bit vectors (AVX-512); `ldexp` is then one instruction."""
    return "avx512f" in cpu_features()


@cache
def has_fma() -> bool:
    """Whether the CPU has fused multiply-add; elsewhere it is a slow library call."""
    return "fma" in cpu_features() or not llvm.get_default_triple().startswith("x86")


@cache
def converts_float16() -> bool:
    """Whether the CPU has instructions that convert float16."""
    return "f16c" in cpu_features() or not llvm.get_default_triple().startswith("x86")


@cache
def is_amd() -> bool:
    """Whether the CPU is AMD's."""
    return processor()[0].startswith(("znver", "bdver", "btver"))


@cache
def gains_from_prefetching() -> bool:
    """Whether software prefetching speeds up memory-bound loops with much arithmetic per element.

    On Intel CPUs they gain up to 20 %. AMD's hardware prefetchers suffice, and the instructions
    cost 10 %.
    """
    return not is_amd()


@cache
def merges_partial_lines() -> bool:
    """Whether rows of many whole cache lines are faster with non-temporal stores even if they start
    within a line, which then has plain stores too.

    On an Intel Emerald Rapids they take 0.87 of the time; others than AMD's are taken to be alike.
    """
    return not is_amd()
