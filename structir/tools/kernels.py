"""Generates random kernels for operands: valid by construction, with all indices in range."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from structir.ir.dims import Dim, sym
from structir.ir.dtype import is_float, is_int
from structir.ir.expr import Var
from structir.ir.kernel import (
    KERNEL_DTYPES,
    Apply,
    Argument,
    Assign,
    Branch,
    Break,
    Continue,
    Element,
    Extent,
    For,
    Kernel,
    KernelStatement,
    Literal,
    Local,
    Scalar,
    Scratch,
    Size,
    While,
    computed_in,
)
from structir.ir.struct_info import PrimStructInfo, TensorStructInfo

RESULT_DTYPES = ("float32", "float32", "int64", "int32", "bool", "float64", "float16", "uint8")
MAX_DEPTH = 3  # nesting depth of expressions


class KernelGenerator:
    """Generates one kernel. A size of the caller becomes a symbolic dim of the kernel, or a
    constant."""

    def __init__(self, rng: Random, name: str) -> None:
        self.rng = rng
        self.name = name
        self.sizes: dict[Dim, Dim] = {}  # kernel dims by caller dims
        self.arrays: list[Var] = []
        self.scalars: list[Scalar] = []  # scalars in scope
        self.loops: list[tuple[Local, Dim]] = []  # loop indices and their extents
        self.count = 0

    def generate(
        self, operands: Sequence[TensorStructInfo]
    ) -> tuple[Kernel, tuple[TensorStructInfo, ...]]:
        """Returns a kernel for operands of these StructInfos, and the StructInfo of its results."""
        params = [
            self.param(f"x{k}", info.dims, str(info.dtype)) for k, info in enumerate(operands)
        ]
        sizes = list(self.sizes) or [2]
        if self.rng.random() < 0.3:
            number = Var("number", PrimStructInfo("int64"))
            self.scalars.append(Argument(number, "int64"))
            params.append(number)
        self.arrays = [p for p in params if isinstance(p.struct_info, TensorStructInfo)]
        results, result_infos = [], []
        for k in range(self.rng.choice([1, 1, 2])):
            shape = tuple([self.rng.choice(sizes) for _ in range(self.rng.choice([0, 1, 1, 2]))])
            dtype = self.rng.choice(RESULT_DTYPES)
            results.append(self.param(f"y{k}", shape, dtype))
            result_infos.append(TensorStructInfo(shape, dtype))
        body: list[KernelStatement] = self.scratch()
        for result in results:
            body += self.loops_over(result)
        return Kernel((*params, *results), tuple(body), self.name), tuple(result_infos)

    def param(self, name: str, shape: Any, dtype: str) -> Var:
        """Generates an array parameter over the dims of the kernel."""
        for dim in shape:
            free = not isinstance(dim, int) or self.rng.random() < 0.5
            self.sizes.setdefault(dim, sym("nmkpqrs"[len(self.sizes) % 7]) if free else dim)
        return Var(name, TensorStructInfo(tuple([self.sizes[d] for d in shape]), dtype))

    def local(self, stem: str, dtype: str) -> Local:
        """Returns an unused name."""
        self.count += 1
        return Local(f"{stem}{self.count}", dtype)

    # Statements

    def scratch(self) -> list[KernelStatement]:
        """Generates a scratch array, in some kernels."""
        if self.rng.random() < 0.7 or not self.sizes:
            return []
        dim = self.rng.choice(list(self.sizes.values()))
        array = Var("own", TensorStructInfo((dim,), self.rng.choice(["float32", "int32"])))
        self.arrays.append(array)
        return [Scratch(array)]

    def loops_over(self, result: Var) -> list[KernelStatement]:
        """Generates loops over all axes of a result, which write to it."""
        info: Any = result.struct_info
        return self.loop_nest(result, list(info.dims), [])

    def loop_nest(
        self, result: Var, dims: list[Dim], indices: list[Scalar]
    ) -> list[KernelStatement]:
        """Generates a loop for each remaining axis, and the write of an element inside."""
        if not dims:
            return self.element_write(result, tuple(indices))
        variable = self.local("i", "int64")
        scalars, backward = list(self.scalars), self.rng.random() < 0.2
        self.loops.append((variable, dims[0]))
        body = self.loop_nest(result, dims[1:], [*indices, variable])
        self.loops.pop()
        self.scalars = scalars
        stop = self.extent(dims[0])
        if backward:
            last = Apply("sub", (stop, Literal(1, "int64")), "int64")
            return [For(variable, last, Literal(-1, "int64"), -1, tuple(body))]
        return [For(variable, Literal(0, "int64"), stop, 1, tuple(body))]

    def extent(self, dim: Dim) -> Scalar:
        """Returns a size of the kernel as a scalar."""
        for array in self.arrays:
            dims: Any = array.struct_info.dims  # type: ignore[attr-defined]
            if dim in dims and self.rng.random() < 0.6:
                return Extent(array, dims.index(dim))
        return Literal(dim, "int64") if isinstance(dim, int) else Size(dim)

    def element_write(self, result: Var, indices: tuple[Scalar, ...]) -> list[KernelStatement]:
        """Generates some statements, then the write of an element of the result."""
        info: Any = result.struct_info
        dtype = computed_in(info.dtype)
        element = Element(result, indices, dtype)
        steps = [
            self.rng.choice([self.assignment, self.sum_loop, self.while_loop])() for _ in range(2)
        ]
        body = [s for step in steps for s in step]
        scratch_arrays = [a for a in self.arrays if a.name == "own"]
        if scratch_arrays and (scratch := self.element(scratch_arrays[0])) is not None:
            body.append(Assign(scratch, self.value(scratch.dtype), self.rng.choice(["", "+"])))
        write = Assign(element, self.value(dtype))
        if self.rng.random() < 0.3:
            other = Assign(element, self.value(dtype))
            return [*body, Branch(self.value("bool"), (write,), (other,))]
        if self.rng.random() < 0.2:
            return [*body, Branch(self.value("bool"), (write,))]
        return [*body, write]

    def assignment(self) -> list[KernelStatement]:
        """Generates an assignment to a new name."""
        dtype = self.rng.choice(["float32", "int64", "bool", "int32"])
        value = self.value(dtype)
        name = self.local("v", dtype)
        self.scalars.append(name)
        return [Assign(name, value)]

    def sum_loop(self) -> list[KernelStatement]:
        """Generates a sum over an axis, which skips some terms."""
        if not self.sizes:
            return self.assignment()
        dtype = self.rng.choice(["float32", "int64", "float64"])
        name, variable = self.local("sum", dtype), self.local("j", "int64")
        dim = self.rng.choice(list(self.sizes.values()))
        scalars = list(self.scalars)
        self.loops.append((variable, dim))
        term = Assign(name, self.value(dtype), self.rng.choice("+-"))
        test = self.value("bool")
        self.loops.pop()
        skip = Branch(test, (self.rng.choice([Break, Continue])(),))
        body = (skip, term) if self.rng.random() < 0.4 else (term,)
        self.scalars = [*scalars, name]
        zero = Literal(0.0 if is_float(dtype) else 0, dtype)
        value = Apply("cast", (zero,), dtype)
        loop = For(variable, Literal(0, "int64"), self.extent(dim), 1, body)
        return [Assign(name, value), loop]

    def while_loop(self) -> list[KernelStatement]:
        """Generates a loop that halves a number until it is small."""
        name = self.local("rest", "int64")
        start = Apply("mod", (self.value("int64"), Literal(97, "int64")), "int64")
        again = Apply("gt", (name, Literal(3, "int64")), "bool")
        step = Assign(name, Literal(2, "int64"), "//")
        self.scalars.append(name)
        return [Assign(name, start), While(again, (step,))]

    # Expressions

    def value(self, dtype: str, depth: int = 0) -> Scalar:
        """Generates a scalar expression of a dtype."""
        leaves = [s for s in (*self.scalars, *[v for v, _ in self.loops]) if s.dtype == dtype]
        elements = [self.element(a) for a in self.arrays]
        leaves += [e for e in elements if e is not None and e.dtype == dtype]
        if depth >= MAX_DEPTH or self.rng.random() < 0.25:
            return self.rng.choice(leaves) if leaves else self.literal(dtype)
        if self.rng.random() < 0.2:
            return self.cast(dtype, depth + 1)
        if self.rng.random() < 0.1:
            alternatives = [self.value(dtype, depth + 1) for _ in range(2)]
            return Apply("select", (self.value("bool", depth + 1), *alternatives), dtype)
        if dtype == "bool":
            return self.comparison(depth + 1)
        return self.arithmetic(dtype, depth + 1)

    def element(self, array: Var) -> Element | None:
        """Generates a load at the indices of the loops over its axes."""
        info: Any = array.struct_info
        indices = []
        for dim in info.dims:
            indices_of_dim = [v for v, size in self.loops if size == dim]
            if not indices_of_dim:
                return None
            indices.append(self.rng.choice(indices_of_dim))
        return Element(array, tuple(indices), computed_in(info.dtype))

    def literal(self, dtype: str) -> Scalar:
        """Generates a literal with its dtype."""
        if dtype == "bool":
            return Literal(self.rng.random() < 0.5, "bool")
        value = self.rng.choice([0, 1, 2, 3])
        written = value + 0.5 if is_float(dtype) and self.rng.random() < 0.5 else value
        return Apply("cast", (Literal(written, dtype),), dtype)

    def cast(self, dtype: str, depth: int) -> Scalar:
        """Generates a conversion from another dtype."""
        source = self.rng.choice(["float32", "int64", "bool", "int32", "float64"])
        return Apply("cast", (self.value(source, depth),), dtype)

    def arithmetic(self, dtype: str, depth: int) -> Scalar:
        """Generates an operator or a function call."""
        if is_int(dtype):
            names = ["add", "sub", "mul", "floordiv", "mod", "bitand", "bitor", "shr", "min", "max"]
        else:
            names = ["add", "sub", "mul", "min", "max", "floor", "tanh", "abs", "neg", "sigmoid"]
        name = self.rng.choice(names)
        count = 1 if name in ("floor", "tanh", "abs", "neg", "sigmoid") else 2
        args = [self.value(dtype, depth) for _ in range(count)]
        return Apply(name, tuple(args), dtype)

    def comparison(self, depth: int) -> Scalar:
        """Generates a comparison, or several."""
        name = self.rng.choice(["lt", "le", "gt", "ge", "ne", "and", "or", "not"])
        if name in ("and", "or", "not"):
            args = [self.value("bool", depth) for _ in range(1 if name == "not" else 2)]
            return Apply(name, tuple(args), "bool")
        dtype = self.rng.choice(["float32", "int64"])
        return Apply(name, (self.value(dtype, depth), self.value(dtype, depth)), "bool")


def fits_kernels(info: Any) -> bool:
    """Returns whether a value can be an operand of a random kernel."""
    has_shape = isinstance(info, TensorStructInfo) and type(info.dims) is tuple
    return has_shape and info.dtype in KERNEL_DTYPES and len(info.dims) < 3
