"""Progress appears only on a terminal, and only for long compilations."""

import io

import pytest

import structir
from structir.script import R
from structir.system import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@R.function
def main(x: R.Tensor(("n", 3), "float32")):
    return R.sum(R.permute_dims(R.exp(x), [1, 0]), axis=0)


@pytest.mark.parametrize(("patience", "told"), [(-1.0, True), (1e9, False)])
def test_long_compilations_show_kernels(monkeypatch, patience, told):
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(progress, "DELAY", patience)
    monkeypatch.setenv("TERM", "xterm")
    executable = structir.compile(main)
    assert executable.kernel_count >= 1
    assert ("compiling: kernel 1" in stream.getvalue()) == told


def test_nothing_is_shown_without_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(progress, "DELAY", -1.0)
    structir.compile(main)
    assert capsys.readouterr().err == ""
