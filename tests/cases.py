"""Many short cases in one test: pytest and its workers take four milliseconds for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def every_case(
    names: str | tuple[str, ...], cases: Iterable[Any], ids: Callable[[Any], Any] = str
) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Runs a test for each case, as `pytest.mark.parametrize` does, but in one test, which fails
    with the errors of all cases that fail, and with their names. The test has no fixtures."""
    parameters = (names,) if isinstance(names, str) else names
    labelled = [_labelled(case, ids) for case in cases]
    assert labelled, "no cases"

    def of_all(test: Callable[..., None]) -> Callable[[], None]:
        def run() -> None:
            failed: list[tuple[str, BaseException]] = []
            for label, values in labelled:
                arguments = values if len(parameters) > 1 else (values,)
                try:
                    test(**dict(zip(parameters, arguments, strict=True)))
                except pytest.skip.Exception:
                    continue
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"case {label}")
                    failed.append((label, error))
            if failed:
                labels = ", ".join([label for label, _ in failed])
                message = f"{len(failed)} of {len(labelled)} cases fail: {labels}"
                raise BaseExceptionGroup(message, [error for _, error in failed])

        run.__name__, run.__qualname__, run.__doc__ = test.__name__, test.__qualname__, test.__doc__
        run.__module__ = test.__module__
        run.pytestmark = getattr(test, "pytestmark", [])  # type: ignore[attr-defined]
        return run

    return of_all


def _labelled(case: Any, ids: Callable[[Any], Any]) -> tuple[str, Any]:
    """Returns the name of a case and its values."""
    if hasattr(case, "marks"):  # a pytest.param
        values = case.values if len(case.values) > 1 else case.values[0]
        return str(case.id if case.id is not None else ids(values)), values
    return str(ids(case)), case
