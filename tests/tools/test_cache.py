"""Tests of `structir cache`."""

from typer.testing import CliRunner

from structir.system.cache import CacheEntry, digest, store
from structir.tools.cli import build

RUNNER = CliRunner()


def rows(text):
    return [line.split() for line in text.splitlines()]


def test_show_and_clear(monkeypatch, tmp_path):
    monkeypatch.setenv("STRUCTIR_CACHE", str(tmp_path / "here"))
    store().write(digest("a"), CacheEntry({}, b"1234"))
    store().write(digest("b"), CacheEntry({}, b"1234"))
    shown = RUNNER.invoke(build(), ["cache", "show"])
    assert "here" in shown.output and ["entries", "2"] in rows(shown.output)
    assert RUNNER.invoke(build(), ["cache", "clear"]).output == "removed 2 entries\n"
    assert ["entries", "0"] in rows(RUNNER.invoke(build(), ["cache", "show"]).output)


def test_turned_off(monkeypatch):
    monkeypatch.setenv("STRUCTIR_CACHE", "off")
    assert "turned off" in RUNNER.invoke(build(), ["cache", "show"]).output
