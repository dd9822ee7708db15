"""Tracebacks of scripts and notebooks: user frames only, all frames under STRUCTIR_DEBUG=1."""

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType

import numpy as np
import pytest

import structir
from structir.errors import StructIRError
from structir.tracebacks import PACKAGE, hide_frames

ROOT = Path(__file__).parents[1]
WRONG = '@R.function\ndef main(x: R.Tensor((4,), "float32")):\n    return R.reshape(x, (5,))\n'
RIGHT = '@R.function\ndef main(x: R.Tensor((4,), "float32")):\n    return R.exp(x)\n'
HEAD = (
    f"import numpy as np\nimport structir\nfrom structir.script import I, R, T\nRIGHT = {RIGHT!r}\n"
)
CALLS = {
    "parse": f"structir.parse({WRONG!r})",
    "decorator": WRONG,
    "module": "@I.ir_module\nclass M:\n" + "".join(f"    {x}\n" for x in WRONG.splitlines()),
    "info": 'structir.parse_struct_info("R.Tensr")',
    "op": 'structir.script.R.exp(structir.script.R.const(1, "float32"), 2)',
    "interpret": 'structir.interpret(structir.parse(RIGHT), "main", np.ones(5, "float32"))',
    "executable": 'structir.compile(structir.parse(RIGHT))["main"](np.ones(5, "float32"))',
    "compile": 'structir.compile(structir.parse(RIGHT), target="abacus")',
    "pass": 'structir.passes.find_pass("nonsense")',
    "attribute": "structir.passes.DeadCodeElimination(nonsense=1)",
    "load": "structir.load(__file__)",
}


def frames_in(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith('  File "')]


def run(*words: object, **environment: str) -> str:
    """Returns what a process writes."""
    finished = subprocess.run(
        [sys.executable, *map(str, words)],
        env=os.environ | {"STRUCTIR_DEBUG": "", "PYTHONPATH": str(ROOT), **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return finished.stdout + finished.stderr


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["decorator", "module", "executable"])
def test_a_script_shows_its_own_frames_alone(name: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(HEAD + CALLS[name])
    text = run(script)
    assert "structir.errors." in text
    assert all(f'"{script}"' in line for line in frames_in(text)) and frames_in(text)
    assert any(PACKAGE in line for line in frames_in(run(script, STRUCTIR_DEBUG="1")))


def test_a_notebook_shows_its_own_frames_alone() -> None:
    text = run("-m", "IPython", "--no-banner", "--colors=nocolor", "-c", HEAD + CALLS["parse"])
    assert "structir.errors.StructInfoError" in text
    assert len(frames_in(text)) == 1 and "<ipython-input" in frames_in(text)[0]


def files_of(trace: TracebackType | None) -> list[str]:
    files = []
    while trace is not None:
        files.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    return files


@pytest.mark.parametrize("name", [name for name in CALLS if name not in ("decorator", "module")])
def test_frames_of_the_package_go_from_every_public_call(name: str) -> None:
    try:
        exec(compile(CALLS[name], "user.py", "exec"), globals() | {"__file__": __file__})
    except StructIRError as error:
        assert any(file.startswith(PACKAGE) for file in files_of(error.__traceback__))
        hide_frames(error)
        assert files_of(error.__traceback__) == [__file__, "user.py"]
    else:
        pytest.fail("no error")


def test_frames_of_a_users_callback_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    module = structir.parse(WRONG.replace("R.reshape(x, (5,))", "R.reshape(x, (2, 2))"))

    @structir.passes.module_pass
    def outer(module: structir.ir.IRModule) -> structir.ir.IRModule:
        return inner(module)

    def inner(module: structir.ir.IRModule) -> structir.ir.IRModule:
        raise structir.errors.PassError(structir.errors.Diagnostic("wrong"))

    with pytest.raises(StructIRError) as caught:
        outer(module)
    hide_frames(caught.value)
    assert files_of(caught.value.__traceback__) == [__file__] * 3


def test_the_errors_behind_an_error_lose_their_frames_too() -> None:
    with pytest.raises(StructIRError) as caught:
        try:
            structir.parse("@")
        except StructIRError:
            structir.interpret(structir.parse(RIGHT), "main", np.ones(5, "float32"))
    hide_frames(caught.value)
    assert files_of(caught.value.__context__.__traceback__) == [__file__]


def test_all_frames_stay_when_debugging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRUCTIR_DEBUG", "1")
    with pytest.raises(StructIRError) as caught:
        structir.parse(WRONG)
    before = files_of(caught.value.__traceback__)
    hide_frames(caught.value)
    assert files_of(caught.value.__traceback__) == before
