"""Compiled functions of a device as words and numbers; and back, without lowering anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from structir.backend.cuda.device import Device
from structir.backend.cuda.device_text import DeviceText, Product, Steps
from structir.backend.cuda.regions import DeviceRegion
from structir.backend.loops.writer import KernelText
from structir.backend.recipe import Boundary, Recipe
from structir.backend.stored import Json, NotStoredError, Reading, Writing
from structir.ir.dims import Poly

SHARED = {f.name for f in attrs.fields(KernelText)}
OWN = [f.name for f in attrs.fields(DeviceText) if f.name not in SHARED]
DESCRIPTIONS: dict[str, type[Any]] = {kind.__name__: kind for kind in (Product, Steps)}


class DeviceWriting(Writing):
    """Tables in the making, of functions for a device."""

    def kernel(self, kernel: KernelText) -> Json:
        """A kernel with what only devices want to know of it."""
        own = [self._said(getattr(kernel, name)) for name in OWN]
        return {**super().kernel(kernel), "own": own}

    def _said(self, value: Any) -> Json:
        """Sizes by their numbers, descriptions by their fields."""
        if isinstance(value, Poly):
            return {"dim": self.dim(value)}
        if isinstance(value, tuple):
            return [self._said(item) for item in value]
        if value is None or isinstance(value, bool | int | str):
            return value
        kind = type(value).__name__
        if kind not in DESCRIPTIONS:
            raise NotStoredError(kind)
        fields = [getattr(value, f.name) for f in attrs.fields(type(value))]
        return {kind: [self._said(field) for field in fields]}


class DeviceReading(Reading):
    """Tables being read, of functions for a device."""

    def __init__(
        self, said: Json, array: Callable[[Json], Any], device: Device, tf32: bool
    ) -> None:
        super().__init__(said, array)
        self.device, self.tf32 = device, tf32

    def kernel(self, said: Json) -> DeviceText:
        """A kernel with what only devices want to know of it."""
        plain = attrs.asdict(super().kernel(said), recurse=False)
        own = zip(OWN, map(self._value, said["own"]), strict=True)
        return DeviceText(**plain, **dict(own))

    def _value(self, said: Json) -> Any:
        if isinstance(said, list):
            return tuple([self._value(item) for item in said])
        if not isinstance(said, dict):
            return said
        ((kind, found),) = said.items()
        return self.dim(found) if kind == "dim" else DESCRIPTIONS[kind](*map(self._value, found))

    def compiled(self, boundary: Boundary, write: Callable[[bool], Recipe]) -> DeviceRegion:
        """The region on the device."""
        return DeviceRegion(boundary, write, self.device, self.tf32)
