"""Hostile inputs: some seeds of each kind, and the run in child processes."""

import importlib
import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from structir.tools.cli import build
from structir.tools.completion import hostile_kinds
from structir.tools.hostile import kinds, runs
from structir.tools.hostile.runs import outcomes, outcomes_of


def module_of(kind):
    return importlib.import_module(f"{kinds.__name__}.{kind}")


# Importing the compiler and its first compilation take longer than most seeds: kinds that leave the
# process as it was share one.
TOGETHER = (
    ("executables", "integers", "plans", "programs", "sizes"),
    ("aliasing", "extremes", "guard_pages", "onnx_nodes", "rounding"),
)
ALONE = sorted({*hostile_kinds()} - {kind for group in TOGETHER for kind in group})


@pytest.mark.sampled(2)
@pytest.mark.parametrize("group", [*((kind,) for kind in ALONE), *TOGETHER], ids=", ".join)
def test_every_kind(group):
    cases = [
        (kind, seed) for kind in group for seed in range(getattr(module_of(kind), "TEST_SEEDS", 15))
    ]
    results = list(outcomes_of(cases))
    assert [(each.kind, each.seed) for each in results] == cases
    failed = [each for each in results if each.error]
    assert failed == [], "\n".join([f"{each.error}\n{each.command}" for each in failed])


CRASHING = """
import os, sys, time
from structir.tools.hostile import worker

def check(seed):
    if seed == 1:
        os.abort()
    if seed == 3:
        raise KeyError("three")
    if seed == 4:
        time.sleep(60)
    print("output of the tested code")

class Kind:
    sample, check = staticmethod(lambda random: random.seed), staticmethod(check)

worker.LIMIT = 2
worker.importlib.import_module = lambda name: Kind
worker.Random = lambda seed: type("R", (), {"seed": seed})
worker.main(sys.argv[1:])
"""


@pytest.fixture
def crashing(monkeypatch, tmp_path):
    """A worker whose seeds crash, fail and hang."""
    script = tmp_path / "crashing.py"
    script.write_text(CRASHING)
    popen = subprocess.Popen

    def start(command, **options):
        return popen([sys.executable, str(script), *command[3:]], **options)

    monkeypatch.setattr(runs.subprocess, "Popen", start)


def test_a_crash_and_a_hang_are_failures_of_their_seeds(crashing):
    results = list(outcomes("cache", range(6)))
    assert [each.seed for each in results] == list(range(6))
    assert [each.seed for each in results if each.error] == [1, 3, 4]
    assert "exit status -6" in results[1].error
    assert "KeyError: 'three'" in results[3].error
    assert "Timeout" in results[4].error
    assert results[4].command == "structir fuzz --hostile cache --seed 4 --programs 1"


def run(*words):
    result = CliRunner().invoke(build(), ["fuzz", *map(str, words)])
    return result.exit_code, result.output


def test_the_command_shows_how_to_reproduce_a_failure(crashing):
    code, output = run("--hostile", "cache", "--seed", 2, "--programs", 2)
    assert code == 5
    assert "structir fuzz --hostile cache --seed 3 --programs 1" in output
    assert "cache: 1 passed, 1 failures, seeds from 2" in output
    code, output = run("--hostile", "cache", "--seed", 2, "--programs", 1, "--json")
    assert code == 0
    assert json.loads(output) == {"passed": 1, "failures": [], "interrupted": False, "seed": 2}


def test_an_unknown_kind_is_wrong_usage():
    code, output = run("--hostile", "nothing")
    assert code == 2
    assert "no kind nothing" in output


def test_runs_leave_the_cache_of_the_user_alone(tmp_path):
    environment = {"STRUCTIR_CACHE": str(tmp_path / "cache")}
    assert [each.error for each in outcomes("plans", range(2), environment)] == [None, None]
    assert list(tmp_path.iterdir()) == []
