"""Serialisation of compiled functions of a device, restored without lowering."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from structir.ir.dims import Poly
from structir.loops.program.kernel_text import KernelText
from structir.runtime.files.serialise import Json, TableReader, TableWriter
from structir.runtime.files.serialise_checks import NotStoredError, require
from structir.runtime.kernel_sequence import Boundary, KernelSequence
from structir.targets.cuda.device import Device
from structir.targets.cuda.device_text import DeviceText, OperandStrides, Product
from structir.targets.cuda.regions import DeviceRegion

SHARED = {f.name for f in attrs.fields(KernelText)}
MOST_THREADS = 1024  # of a block; no other number of a kernel is larger
OWN = [f.name for f in attrs.fields(DeviceText) if f.name not in SHARED]
DESCRIPTIONS: dict[str, type[Any]] = {kind.__name__: kind for kind in (Product, OperandStrides)}


def _is_dim(value: Any) -> bool:
    return type(value) is int or type(value) is Poly


# Whether a value has the type of a field, by the field's annotation.
FITS: dict[str, Callable[[Any], bool]] = {
    "Dim": _is_dim,
    "Dim | None": lambda v: v is None or _is_dim(v),
    "bool": lambda v: type(v) is bool,
    "int": lambda v: type(v) is int and 0 <= v <= MOST_THREADS,
    "str": lambda v: type(v) is str,
    "tuple[Dim, ...]": lambda v: type(v) is tuple and all(map(_is_dim, v)),
    "tuple[Dim, int] | None": lambda v: (
        v is None or (type(v) is tuple and len(v) == 2 and _is_dim(v[0]) and type(v[1]) is int)
    ),
    "Product | None": lambda v: v is None or type(v) is Product,
    "OperandStrides": lambda v: type(v) is OperandStrides,
    "OperandStrides | None": lambda v: v is None or type(v) is OperandStrides,
}


def _fits(kind: type[Any], values: Mapping[str, Any]) -> bool:
    """Whether values have the types of the fields of a class."""
    annotations = {f.name: str(f.type) for f in attrs.fields(kind)}
    return all(FITS[annotations[name]](value) for name, value in values.items())


class DeviceWriting(TableWriter):
    """Writes the tables of functions for a device."""

    def kernel(self, kernel: KernelText) -> Json:
        """Writes a kernel with its device fields."""
        own = [self._stored(getattr(kernel, name)) for name in OWN]
        return {**super().kernel(kernel), "own": own}

    def _stored(self, value: Any) -> Json:
        """Writes sizes as numbers, descriptions as their fields."""
        if isinstance(value, Poly):
            return {"dim": self.dim(value)}
        if isinstance(value, tuple):
            return [self._stored(item) for item in value]
        if value is None or isinstance(value, bool | int | str):
            return value
        kind = type(value).__name__
        if kind not in DESCRIPTIONS:
            raise NotStoredError(kind)
        fields = [getattr(value, f.name) for f in attrs.fields(type(value))]
        return {kind: [self._stored(field) for field in fields]}


class DeviceReading(TableReader):
    """Reads the tables of functions for a device."""

    def __init__(
        self, json: Json, array: Callable[[Json], Any], device: Device, tf32: bool
    ) -> None:
        super().__init__(json, array)
        self.device, self.tf32 = device, tf32

    def kernel(self, json: Json) -> DeviceText:
        """Reads a kernel with its device fields."""
        plain = attrs.asdict(super().kernel(json), recurse=False)
        own = dict(zip(OWN, map(self._value, json["own"]), strict=True))
        require(_fits(DeviceText, own), "a kernel of other fields")
        return DeviceText(**plain, **own)

    def _value(self, json: Json) -> Any:
        if isinstance(json, list):
            return tuple([self._value(item) for item in json])
        if not isinstance(json, dict):
            return json
        ((kind, fields),) = json.items()
        if kind == "dim":
            return self.dim(fields)
        description = DESCRIPTIONS[kind](*map(self._value, fields))
        require(
            _fits(type(description), attrs.asdict(description, recurse=False)),
            "a description of others",
        )
        return description

    def compiled(self, boundary: Boundary, write: Callable[[bool], KernelSequence]) -> DeviceRegion:
        """Returns the region on the device."""
        return DeviceRegion(boundary, write, self.device, self.tf32)
