"""Interrupts while modules load and machine code is made."""

import importlib
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from numba.core.registry import cpu_target

import structir
from structir.interrupts import defer_interrupts, repeat_dropped_interrupts
from structir.lazy import lazy_module
from structir.targets.cpu.library import store_code_uninterrupted
from structir.targets.cpu.registries import read_all


@pytest.fixture(autouse=True)
def interrupts_are_heard() -> Iterator[None]:
    """Also where the tests were started in the background of a shell, which has them ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_comes_when_the_work_is_done() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), defer_interrupts():
        os.kill(os.getpid(), signal.SIGINT)
        done.append("work")
    assert done == ["work"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_errors_pass_and_other_threads_are_left_alone() -> None:
    with pytest.raises(ValueError, match="mine"), defer_interrupts():
        raise ValueError("mine")
    seen = []

    def work() -> None:
        with defer_interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


def test_machine_code_is_stored_before_an_interrupt() -> None:
    stored = []

    class Engine:
        def finalize_object(self) -> None:
            signal.raise_signal(signal.SIGINT)
            stored.append("code")

    codegen = SimpleNamespace(_engine=Engine())
    for _ in range(2):  # the second call changes nothing
        store_code_uninterrupted(codegen)
    with pytest.raises(KeyboardInterrupt):
        codegen._engine.finalize_object()
    assert stored == ["code"]


def test_the_engine_of_numba_stores_machine_code_before_an_interrupt() -> None:
    read_all()
    assert "finalize_object" in vars(cpu_target.target_context.codegen()._engine)


def test_an_interrupt_within_an_import_is_raised_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that is half imported fails later, where its modules import each other."""
    (tmp_path / "interrupted_import.py").write_text(
        "import signal\nsignal.raise_signal(signal.SIGINT)\ncomplete = True\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        _ = lazy_module("interrupted_import").complete
    assert sys.modules.pop("interrupted_import").complete


def test_numba_is_imported_completely() -> None:
    """Whichever backend is the first to use it."""
    first_uses = (
        "import structir.targets.cuda",
        "from structir.targets.cpu import kernels; kernels.numba_code.TABLE",
    )
    for first_use in first_uses:
        program = (
            "import signal, sys\n"
            "class Finder:\n"
            "    def find_spec(name, path, target=None):\n"
            "        if name == 'numba.core.datamodel.models':\n"
            "            signal.raise_signal(signal.SIGINT)\n"
            "sys.meta_path.insert(0, Finder)\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "try:\n"
            f"    {first_use}\n"
            "except KeyboardInterrupt:\n"
            "    print('interrupted')\n"
            "import numba.np.ufunc, structir.targets.cpu.kernels\n"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert (done.stdout, done.returncode) == ("interrupted\n", 0), done.stderr


def interrupted_where_python_drops_it() -> None:
    class Referent:
        pass

    referent = Referent()
    reference = weakref.ref(referent, lambda _: signal.raise_signal(signal.SIGINT))
    del referent
    assert reference() is None
    time.sleep(20)


def test_an_interrupt_within_a_callback_is_raised_after_it() -> None:
    hook = sys.unraisablehook
    with pytest.raises(KeyboardInterrupt), repeat_dropped_interrupts():
        interrupted_where_python_drops_it()
    assert sys.unraisablehook is hook


compiling = importlib.import_module(
    "structir.targets.compile"
)  # the package has a function of this name


def test_compiling_keeps_interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    module = structir.parse("@R.function\ndef main(x: R.Tensor((3,), 'float32')):\n    return x\n")
    monkeypatch.setattr(
        compiling, "check_well_formed", lambda _: interrupted_where_python_drops_it()
    )
    with pytest.raises(KeyboardInterrupt):
        structir.compile(module)
