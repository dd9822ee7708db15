"""Regions of programs compared with measured dependence: the elements that influence a part of a
result.

The cases are read from the folder `STRUCTIR_CASES`, by default this one; `python -m
tests.projections.test_region_cases` prints the number of exact answers in each group.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from structir.projections.boxes import NOTHING, Region, region
from structir.projections.cost import neighbours, shards
from structir.projections.program import Program, program_of
from tests.cases import every_case
from tests.projections.case_programs import function_of

FOLDER = Path(os.environ.get("STRUCTIR_CASES", Path(__file__).parent))
CASES = [json.loads(line) for line in (FOLDER / "projection_cases.jsonl").read_text().splitlines()]


class Answers:
    """The regions that we give for a case, by its own names."""

    def __init__(self, case: dict) -> None:
        function, values = function_of(case)
        self.program: Program = program_of(function)
        self.keys = {name: self.program.values[var] for name, var in values.items()}
        self.result = case["result"]
        self.params = [p["name"] for p in case["params"]]
        self.shape = self.program.shapes[self.keys[self.result]]

    def required_regions(self, out: list[list[int]] | Region) -> dict[str, Region]:
        wanted = out if isinstance(out, Region) else region(*out)
        actual = self.program.required_regions({self.keys[self.result]: wanted})
        return {name: actual.get(self.keys[name], NOTHING) for name in self.params}

    def affected_regions(self, name: str, box: list[list[int]]) -> Region:
        actual = self.program.affected_regions({self.keys[name]: region(*box)})
        return actual.get(self.keys[self.result], NOTHING)


def listed(actual: Region) -> list[list[int]] | None:
    return None if actual.bounds is None else [list(corner) for corner in actual.bounds]


def judged(actual: Region, hull: list[list[int]] | None) -> str:
    """Returns how the computed bounds compare with the measured ones."""
    own = listed(actual)
    if own == hull:
        return "equal"
    if own is None or not (hull is None or region(*hull).within(region(*own))):
        return "wrong"
    return "wider"


def verdicts(case: dict) -> Iterator[tuple[str, str, object]]:
    """Yields each query with its verdict and the details."""
    answers, expect = Answers(case), case["expect"]
    assert list(answers.shape) == expect["out_shape"]
    for asked in expect["regions"]:
        actual = answers.required_regions(asked["out"])
        for name, want in asked["in"].items():
            given = actual[name]
            yield "hull", judged(given, want["hull"]), (asked["out"], name, listed(given), want)
            if given.exact:
                right = (given.count, given.dense) == (want["needed"], want["dense"])
                shown = (asked["out"], name, given, want)
                yield "count", "equal" if right else "wrong", shown
            else:
                least = given.count - want["needed"]
                yield "count", "wrong" if least < 0 else "wider" if least else "equal", given
    yield from of_shards(answers, expect)
    yield from of_neighbours(answers, expect)
    asked = expect.get("backward")
    if asked is not None:
        actual = answers.affected_regions(asked["input"], asked["in"])
        yield "affected", judged(actual, asked["out_hull"]), (asked, listed(actual))
        if actual.exact:
            yield (
                "count",
                "equal" if actual.count == asked["affected"] else "wrong",
                (asked, actual),
            )


def of_shards(answers: Answers, expect: dict) -> Iterator[tuple[str, str, object]]:
    read: Counter[str] = Counter()
    for asked in expect["shards"]:
        actual = answers.required_regions(asked["out"])
        for name, hull in asked["in"].items():
            yield "shard", judged(actual[name], hull), (asked["out"], name, actual[name], hull)
            read[name] += actual[name].volume
    if "grid" in expect:
        boxes = [asked["out"] for asked in expect["shards"]]
        own = [listed(r) for r in shards(answers.shape, expect["grid"])]
        yield "grid", "equal" if own == boxes else "wrong", own
        wider = all(read[n] >= v for n, v in expect["elements_read"].items())
        same = dict(read) == {n: v for n, v in expect["elements_read"].items() if v or n in read}
        yield "total", "equal" if same else "wider" if wider else "wrong", dict(read)


def of_neighbours(answers: Answers, expect: dict) -> Iterator[tuple[str, str, object]]:
    for asked in expect["sharing"]:
        actual = neighbours(answers.required_regions, asked["at"], asked["tile"], asked["axis"])
        for name, want in asked["in"].items():
            own = actual[name]
            given = {
                "box": own.box,
                "shared_box": own.shared_box,
                "stride": None if own.stride is None else list(own.stride),
            }
            same = all(want[k] == v for k, v in given.items())
            yield "sharing", "equal" if same else "wider", (asked, name, given)
            exact = own.shared_needed is not None
            if exact and own.shared_needed != want["shared_needed"]:
                yield "sharing", "wrong", (asked, name, own)


@cache
def tally(position: int) -> tuple[Counter[tuple[str, str]], list[object]]:
    counted: Counter[tuple[str, str]] = Counter()
    shown: list[object] = []
    for what, verdict, detail in verdicts(CASES[position]):
        counted[what, verdict] += 1
        if verdict != "equal":
            shown.append((what, verdict, detail))
    return counted, shown


@every_case("position", range(len(CASES)), ids=lambda position: CASES[position]["id"])
def test_regions_equal_the_measured_ones(position: int) -> None:
    counted, shown = tally(position)
    assert counted.total() > 0
    assert not [s for s in shown if s[1] == "wrong"], shown
    if CASES[position]["level"] == "core":
        assert not [s for s in shown if s[0] != "count"], shown


def main() -> None:
    groups: dict[tuple[str, str], Counter[str]] = {}
    for position, case in enumerate(CASES):
        group = groups.setdefault((case["group"], case["level"]), Counter())
        try:
            counted, shown = tally(position)
        except Exception as error:
            group["failed"] += 1
            print(case["id"], type(error).__name__, error)
            continue
        for (_, verdict), n in counted.items():
            group[verdict] += n
        for line in shown:
            print(case["id"], *line)
    for (name, level), group in sorted(groups.items()):
        print(f"{name} ({level}):", ", ".join(f"{n} {verdict}" for verdict, n in group.items()))


if __name__ == "__main__":
    main()
