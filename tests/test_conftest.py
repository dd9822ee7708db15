"""Of a sampled family, `make test` runs as many cases as its marker says, the same in each run; its
cache is private; flags that jaxlib lacks are left out; declarations end with their test."""

from pathlib import Path

import attrs
import pytest

import structir
from structir.ir.kernel import Kernel
from structir.loops.primitives import add_primitive, primitive_names
from structir.loops.recipes import recipe_names
from structir.loops.schedule.primitive import primitive
from tests.conftest import (
    XLA_FLAGS,
    accepted_flags,
    cache_folder,
    pytest_collection_modifyitems,
    temporary_declarations,
)


@attrs.define
class Case:
    """A test as the hook sees it."""

    nodeid: str
    count: int | None = None
    added: list[str] = attrs.field(factory=list)

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return None if self.count is None else getattr(pytest.mark, name)(self.count).mark

    def add_marker(self, name: str) -> None:
        self.added.append(name)


def kept(cases: list[Case]) -> set[str]:
    pytest_collection_modifyitems(cases)
    assert all(case.added in ([], ["exhaustive"]) for case in cases)
    return {case.nodeid for case in cases if not case.added}


@pytest.mark.parametrize("count", [1, 3, 20, 30])
def test_a_sampled_family_keeps_as_many_cases_as_its_marker_says(count: int) -> None:
    family = [Case(f"a.py::f[{k}]", count) for k in range(20)]
    plain = [Case(f"a.py::g[{k}]") for k in range(5)]
    chosen = kept(family + plain)
    assert len(chosen) == min(count, 20) + 5
    again = [Case(case.nodeid, case.count) for case in reversed(plain + family)]
    assert kept(again) == chosen


def test_each_family_has_a_sample_of_its_own() -> None:
    families = [[Case(f"{file}.py::f[{k}]", 2) for k in range(9)] for file in "abc"]
    chosen = kept([case for cases in zip(*families, strict=True) for case in cases])
    assert [len(chosen & {case.nodeid for case in family}) for family in families] == [2, 2, 2]


def test_a_cache_that_others_can_write_is_replaced_by_a_temporary_one(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    missing, shared = tmp_path / "build" / "cache", tmp_path / "shared"
    assert cache_folder(missing, tmp_path_factory) == missing
    shared.mkdir()
    assert cache_folder(shared, tmp_path_factory) == shared
    shared.chmod(0o777)
    assert cache_folder(shared, tmp_path_factory) not in (shared, missing)


def test_flags_that_jaxlib_lacks_are_left_out() -> None:
    pytest.importorskip("jaxlib")
    accepted = accepted_flags(["--xla_no_such_flag=1", *XLA_FLAGS])
    assert accepted
    assert set(accepted) <= set(XLA_FLAGS)


def test_recipes_and_primitives_of_a_test_end_with_it() -> None:
    before = recipe_names(), primitive_names()
    with temporary_declarations():

        @structir.recipe
        def unrolled(kernel, target):
            """Does nothing."""

        @primitive
        def same(kernel: Kernel) -> Kernel:
            """Returns the kernel as it is."""
            return kernel

        add_primitive(same)
        assert "unrolled" in recipe_names() and "same" in primitive_names()
    assert (recipe_names(), primitive_names()) == before
