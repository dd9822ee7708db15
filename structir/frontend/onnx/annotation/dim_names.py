"""Names of symbolic sizes in the types of an annotated model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from onnx import TypeProto

from structir.frontend.onnx.names import ValueKey
from structir.frontend.onnx.types import OnnxSymbols, identifier, is_size_name
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.module import numbered_name
from structir.ir.struct_info import StructInfo, TensorStructInfo

IN_EXPRESSIONS = re.compile(r"[A-Za-z_][\w.:]*")  # names that an expression may contain unchanged


class DimNames:
    """The `dim_param` of every size: sizes of inputs keep their names, others get unique ones."""

    def __init__(self, symbols: OnnxSymbols) -> None:
        self.by_symbol: dict[Sym, str] = {}
        self.declared: dict[Sym, str] = {}  # the names that inputs declare
        for name, size in symbols.by_name.items():
            symbol = dims.as_sym(size)
            if symbol is not None:
                self.declared.setdefault(symbol, name)
        self.used = set(self.declared.values())
        for symbol, name in self.declared.items():
            if IN_EXPRESSIONS.fullmatch(name):
                self.by_symbol[symbol] = name

    def adopt(
        self,
        declared: Mapping[ValueKey, TypeProto],
        infos: Mapping[ValueKey, StructInfo | None],
    ) -> None:
        """Uses the names that the model declares for sizes that no input has."""
        for key, onnx_type in declared.items():
            info = infos.get(key)
            shape = onnx_type.tensor_type.shape.dim
            if not isinstance(info, TensorStructInfo) or not isinstance(info.dims, tuple):
                continue
            if len(shape) == len(info.dims):
                self._adopt_names([d.dim_param for d in shape], info.dims)

    def _adopt_names(self, names: Iterable[str], sizes: Iterable[Dim]) -> None:
        for name, size in zip(names, sizes, strict=True):
            symbol = dims.as_sym(size)
            if symbol is None or symbol in self.declared or name in self.used:
                continue
            if is_size_name(name) and name.isidentifier():
                self._name(symbol, name)

    def text(self, size: Dim) -> str:
        """Returns the `dim_param` of a size: a name, or an expression of names."""
        symbol = dims.as_sym(size)
        if symbol is not None and symbol in self.declared:
            return self.declared[symbol]
        return dims.python_text(size, self.name_of).replace(" * ", "*")

    def name_of(self, symbol: Sym) -> str:
        """Returns the name of a symbol, which no other symbol has."""
        if symbol not in self.by_symbol:
            stem = identifier(symbol.name).replace("_part_", "_")  # of an intermediate value
            self._name(symbol, numbered_name(stem, self.used))
        return self.by_symbol[symbol]

    def _name(self, symbol: Sym, name: str) -> None:
        self.by_symbol[symbol] = name
        self.used.add(name)
