"""From what the texts of schedules say to the words of the language of kernels."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence

from structir.backend.loops.as_scalar import NotShown
from structir.backend.loops.contraction import MatrixForm
from structir.ir.dtype import INTS
from structir.ir.kernel_functions import CONVERSIONS, OF_T

NAMED = {"ceil": "ceil", "floor": "floor", "trunc": "trunc", "nearest": "round"}
NAMED |= {"square_root": "sqrt"}
NAMED |= {name: name for name in ("maximum", "minimum", "add_to", "multiply_to")}
NAMED |= {"greater": "maximum", "lesser": "minimum"}
OPERATORS: dict[str, type[ast.operator]] = {
    "wrapping_add": ast.Add,
    "wrapping_sub": ast.Sub,
    "wrapping_mul": ast.Mult,
    **{f"floordiv_{dtype}": ast.FloorDiv for dtype in INTS},
    **{f"mod_{dtype}": ast.Mod for dtype in INTS},
    "floor_quotient_float32": ast.FloorDiv,
    "floor_quotient_float64": ast.FloorDiv,
    "remainder_float32": ast.Mod,
    "remainder_float64": ast.Mod,
    "shifted_left": ast.LShift,
    "shifted_right": ast.RShift,
}
PLAIN = frozenset({"min", "max", "abs", "range"})
READS = frozenset({"half_value", "brain_value"})
STORES = frozenset({"half_bits", "brain_bits"})
WITH_DTYPE = re.compile(r"(\w+)_(float32|float64)")
NUMBERS = frozenset({"inf", "nan"})


class Words:
    """Says statements over again: `arrays` are the names of pointers, `forms` tell how a constant
    lies whose panels a pointer is to."""

    def __init__(
        self,
        arrays: Mapping[str, str],
        dtypes: Mapping[str, str],
        forms: Mapping[str, MatrixForm],
    ) -> None:
        self.arrays, self.dtypes, self.forms = arrays, dtypes, forms
        self.panels: dict[str, list[ast.expr]] = {}  # what was put in panels, and how it lies

    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Statements in order."""
        return [told for statement in statements for told in self._statement(statement)]

    def _statement(self, statement: ast.stmt) -> list[ast.stmt]:
        match statement:
            case ast.Assign([ast.Name() as target], value):
                return [_assign(target, self.value(value))]
            case ast.Assign([ast.Subscript() as target], value):
                return [_assign(self._element(target), self._stored(target, value))]
            case ast.AugAssign(ast.Name() as target, op, value):
                return [_placed(ast.AugAssign(target, op, self.value(value)))]
            case ast.For(target, call, body):
                return [_placed(ast.For(target, self.value(call), self.block(body), []))]
            case ast.While(test, body):
                return [_placed(ast.While(self.value(test), self.block(body), []))]
            case ast.If(test, body, otherwise):
                sides = self.block(body), self.block(otherwise)
                return [_placed(ast.If(self.value(test), *sides))]
            case ast.Expr(ast.Call(ast.Name(name), [ast.Tuple(args)])) if name in LIBRARY:
                return LIBRARY[name](self, args)
            case ast.Expr(ast.Call(ast.Name("multiply_matrices"), args)):
                return self._product(args)
            case ast.Expr(ast.Call(ast.Name("copy_run"), [to, source, count, _])):
                return self._copy(to, source, count)
        raise NotShown(ast.unparse(statement))

    # ---- values

    def value(self, node: ast.expr) -> ast.expr:
        """An expression."""
        match node:
            case ast.Name(name) if name in NUMBERS:
                return _call("float", ast.Constant(name))
            case ast.Name(name) if name in self.arrays:
                raise NotShown(f"the address {name}")
            case ast.Name() | ast.Constant():
                return node
            case ast.UnaryOp(ast.USub(), ast.Name("inf")):
                return _call("float", ast.Constant("-inf"))
            case ast.UnaryOp(op, operand):
                return ast.UnaryOp(op, self.value(operand))
            case ast.BinOp(left, op, right):
                return ast.BinOp(self.value(left), op, self.value(right))
            case ast.Compare(ast.Subscript() as element, [ast.NotEq()], _) if self._is_truth(
                element
            ):
                return self._element(element)
            case ast.Compare(left, ops, sides):
                return ast.Compare(self.value(left), ops, [self.value(s) for s in sides])
            case ast.IfExp(test, first, second):
                return ast.IfExp(self.value(test), self.value(first), self.value(second))
            case ast.BoolOp(op, values):
                return ast.BoolOp(op, [self.value(v) for v in values])
            case ast.Subscript():
                return self._read(node)
            case ast.Call(ast.Name(name), args):
                return self._called(name, args)
        raise NotShown(ast.unparse(node))

    def _called(self, name: str, args: list[ast.expr]) -> ast.expr:
        if name in READS and isinstance(args[0], ast.Subscript):
            return self._element(args[0])
        if name in OPERATORS:
            first, second = map(self.value, args[:2])
            return ast.BinOp(first, OPERATORS[name](), second)
        given = [self.value(arg) for arg in args]
        if name in PLAIN:
            return _call(name, *given)
        found = WITH_DTYPE.fullmatch(name)
        word = found[1] if found else NAMED.get(name, name)
        if found is not None and word == "pow":
            return ast.BinOp(given[0], ast.Pow(), given[1])
        known = word in OF_T and (found is not None or name in NAMED)
        word = word.removeprefix("to_")
        if not known and word not in CONVERSIONS:
            raise NotShown(name)
        return _call(f"T.{word}", *given)

    def _is_truth(self, node: ast.Subscript) -> bool:
        return isinstance(node.value, ast.Name) and self.dtypes.get(node.value.id) == "bool"

    def _read(self, node: ast.Subscript) -> ast.expr:
        name = node.value.id if isinstance(node.value, ast.Name) else ""
        if self.dtypes.get(name) in ("bool", "float16", "bfloat16"):
            raise NotShown(f"the bits of {name}")
        return self._element(node)

    def _element(self, node: ast.Subscript) -> ast.expr:
        name = node.value.id if isinstance(node.value, ast.Name) else ""
        if name not in self.arrays or name in self.forms:
            raise NotShown(ast.unparse(node))
        return self._at(name, node.slice)

    def _at(self, name: str, index: ast.expr) -> ast.expr:
        array = ast.Attribute(ast.Name(self.arrays[name]), "flat")
        return ast.Subscript(array, self.value(index))

    def _stored(self, target: ast.Subscript, value: ast.expr) -> ast.expr:
        match value:
            case ast.Call(ast.Name(name), [inner]) if name in STORES:
                return self.value(inner)
            case ast.Call(ast.Name("uint8"), [inner]) if self._is_truth(target):
                return self.value(inner)
        return self.value(value)

    # ---- the library

    def _copy(self, to: ast.expr, source: ast.expr, count: ast.expr) -> list[ast.stmt]:
        """A run of elements, one by one."""
        step = ast.Name("copied")
        places = [self._place(node, step) for node in (to, source)]
        loop = ast.For(step, _call("range", self.value(count)), [_assign(*places)], [])
        return [_placed(loop)]

    def _place(self, node: ast.expr, beyond: ast.expr | None = None) -> ast.expr:
        match node:
            case ast.Name(name) if name in self.arrays:
                return self._at(name, beyond or ast.Constant(0))
            case ast.Call(ast.Name("offset_by"), [ast.Name(name), index]) if beyond is not None:
                return self._at(name, ast.BinOp(index, ast.Add(), beyond))
            case ast.Call(ast.Name("offset_by"), [ast.Name(name), index]):
                return self._at(name, index)
        raise NotShown(ast.unparse(node))

    def _product(self, args: list[ast.expr]) -> list[ast.stmt]:
        """The product of operands as they lie; what it uses as it goes is its own affair."""
        places = [self._place(arg) for arg in args[:3]]
        return [_said("tiled_product", [*places, *map(self.value, args[3:11])])]

    def _packing(self, args: list[ast.expr]) -> list[ast.stmt]:
        panels, source, _, _, *steps = args
        assert isinstance(panels, ast.Name)
        self.panels[panels.id] = [source, *steps]
        return []

    def _packed_product(self, args: list[ast.expr]) -> list[ast.stmt]:
        """The product with panels, said of what they are made of."""
        left, panels, out, *sizes, a_row, a_column, c_row = args
        name = panels.id if isinstance(panels, ast.Name) else ""
        if name in self.panels:
            right, *steps = self.panels[name]
            place = self._place(right)
        elif name in self.forms and self.dtypes[name].startswith("float"):
            form = self.forms[name]
            place = self._at(name, ast.Constant(form.start))
            steps = [ast.Constant(form.down), ast.Constant(form.across)]
        else:
            raise NotShown(ast.unparse(panels))
        integers = [*sizes, a_row, a_column, *steps, c_row]
        places = [self._place(left), place, self._place(out)]
        return [_said("tiled_product", [*places, *map(self.value, integers)])]

    def _turning(self, args: list[ast.expr]) -> list[ast.stmt]:
        places = [self._place(arg) for arg in args[:2]]
        return [_said("transpose", [*places, *map(self.value, args[2:])])]


LIBRARY: dict[str, Callable[[Words, list[ast.expr]], list[ast.stmt]]] = {
    "multiply_tiled": Words._product,
    "multiply_packed": Words._packed_product,
    "pack_panels": Words._packing,
    "turn_over": Words._turning,
}


def _call(name: str, *args: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(name), list(args), [])


def _said(name: str, args: Sequence[ast.expr]) -> ast.stmt:
    return _placed(ast.Expr(_call(f"T.{name}", *args)))


def _assign(target: ast.expr, value: ast.expr) -> ast.stmt:
    return _placed(ast.Assign([target], value))


def _placed(statement: ast.stmt) -> ast.stmt:
    statement.lineno = statement.col_offset = 0
    return statement
