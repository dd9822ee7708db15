"""Modules of LLVM are freed once, whatever finalizer the garbage collector runs first."""

import gc
from collections import Counter

import llvmlite.binding as llvm
import pytest

from structir.targets.cpu.code_generation import Assembled, module_of_assembly, pending_kernel
from structir.targets.cpu.prepared import prepared

IR = """
declare float @half_value(i16)
define void @kernel(ptr %a, i64 %lo, i64 %hi) {
  %bits = load i16, ptr %a
  %value = call float @half_value(i16 %bits)
  store float %value, ptr %a
  ret void
}
"""


def keep_in_a_cycle():
    try:
        pending = pending_kernel(Assembled(IR, ("half_value",)), "kept", prepared)
        assert pending.module
        raise KeyboardInterrupt
    except KeyboardInterrupt as error:
        kept = error
        assert kept.__traceback__.tb_frame.f_locals["kept"] is kept


@pytest.fixture
def freed(monkeypatch):
    """Counts what finalizers free; the modules of contexts of their own stay as they are."""
    count, whole = Counter(), llvm.ModuleRef._dispose

    def free_module(module):
        if type(module._context) is llvm.context.GlobalContextRef:
            whole(module)
        else:
            count["modules"] += 1

    def free_context(context):
        count["contexts"] += 1
        llvm.ffi.lib.LLVMPY_ContextDispose(context)

    gc.collect()
    monkeypatch.setattr(llvm.ModuleRef, "_dispose", free_module)
    monkeypatch.setattr(llvm.context.ContextRef, "_dispose", free_context)
    return count


def test_a_compilation_in_a_cycle_is_freed_by_its_context(freed):
    prepared("half_value")
    freed.clear()
    keep_in_a_cycle()
    assert not freed
    gc.collect()
    assert freed == {"contexts": 1}


def test_what_is_read_from_the_cache_is_freed_by_its_context(freed):
    prepared.__wrapped__("half_value")  # which checks that it is bitcode, or builds it
    assert freed["contexts"] >= 1
    assert not freed["modules"]


def test_a_text_that_llvm_does_not_read_is_an_error():
    with pytest.raises(RuntimeError, match="parsing error"):
        module_of_assembly("no code")
    gc.collect()
