"""What type checkers read of the package is what the package has."""

from structir.tools.stubs import stubs


def test_every_stub_is_what_the_package_has() -> None:
    made = stubs()
    assert {path.parent.name for path in made} >= {"structir", "ir", "analysis", "passes"}
    old = [path for path, text in made.items() if path.read_text(encoding="utf-8") != text]
    assert old == [], "python -m structir.tools.stubs writes them anew"
