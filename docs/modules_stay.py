"""For the reference of the API: a package that stubs give as a value, too, stays a package."""

from pathlib import Path
from typing import Any

import griffe


class ModulesStay(griffe.Extension):
    """`structir.interpret` is called like a function; its page is about the package."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        parent, file = attr.parent, Path(attr.filepath)
        package = file.suffix == ".pyi" and (file.parent / attr.name / "__init__.py").exists()
        if package and parent is not None and parent.is_module:
            parent.members.pop(attr.name, None)
