"""Random kernels with affine accesses, as text: nested loops, windows, guards, scratch arrays,
accumulations and recurrences.
"""

from random import Random

SIZES = {"n": 6, "m": 5}


class KernelText:
    """The generator of one kernel over operands `x`, `w` and a result `out`.

    Every index is in range, by a guard or by the sizes of loops.
    """

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.names = iter("abcdefghpqrstu")

    def text(self) -> str:
        """Returns the source of the kernel `f`."""
        rank = self.rng.choice([1, 1, 2])
        shape = "n" if rank == 1 else "n, m"
        sizes = "".join(f'"{d}", ' for d in shape.split(", "))
        self.lines = [
            "@I.kernel",
            f'def f(x: R.Tensor(({sizes}), "float64"), w: R.Tensor((3,), "float64"), '
            f'out: R.Tensor(({sizes}), "float64")):',
        ]
        self.rank = rank
        for body in self.rng.sample(BODIES, self.rng.choice([1, 1, 2])):
            body(self)
        return "\n".join(self.lines) + "\n"

    # ---- parts

    def add(self, depth: int, line: str) -> None:
        self.lines.append("    " * (depth + 1) + line)

    def loops(self, depth: int = 0) -> list[str]:
        """Adds a loop over each axis of the result; returns their variables."""
        variables = []
        for size in ("n", "m")[: self.rank]:
            variable = next(self.names)
            bounds = self.rng.choice([f"{size}", f"{size}", f"0, {size}", f"{size} - 1, -1, -1"])
            self.add(depth + len(variables), f"for {variable} in range({bounds}):")
            variables.append(variable)
        return variables

    def shifted(self, variable: str, size: str) -> tuple[str, str]:
        """Returns an index near a variable, and the guard that it is in range."""
        kind = self.rng.randrange(5)
        if kind == 0:
            return variable, ""
        if kind == 1:
            return f"{size} - 1 - {variable}", ""
        if kind == 2:
            return f"min({variable} + {self.rng.randrange(1, 3)}, {size} - 1)", ""
        if kind == 3:
            return f"{variable} // 2", ""
        shift = self.rng.choice([-2, -1, 1, 2])
        index = f"{variable} + {shift}" if shift > 0 else f"{variable} - {-shift}"
        guard = f"{index} < {size}" if shift > 0 else f"{index} >= 0"
        return index, guard

    def load(self, array: str, variables: list[str]) -> str:
        """Returns a load of an element near the variables, 0 outside of the array."""
        parts = [
            self.shifted(variable, size) for variable, size in zip(variables, "nm", strict=False)
        ]
        element = f"{array}[{', '.join(index for index, _ in parts)}]"
        guards = [guard for _, guard in parts if guard]
        return f"({element} if {' and '.join(guards)} else 0.0)" if guards else element


def elementwise(kernel: KernelText) -> None:
    variables = kernel.loops()
    depth = len(variables)
    index = ", ".join(variables)
    value = f"{kernel.load('x', variables)} * 1.5 + {kernel.load('x', variables)}"
    kernel.add(depth, f"out[{index}] {kernel.rng.choice(['=', '+='])} {value}")


def guarded(kernel: KernelText) -> None:
    variables = kernel.loops()
    depth, rng = len(variables), kernel.rng
    index, first = ", ".join(variables), variables[0]
    test = rng.choice([f"{first} > 2", f"{first} % 2 == 0", f"{first} < n // 2"])
    kernel.add(depth, f"if {test}:")
    kernel.add(depth + 1, f"out[{index}] = {kernel.load('x', variables)}")
    if rng.random() < 0.6:
        kernel.add(depth, "else:")
        kernel.add(depth + 1, f"out[{index}] = {kernel.load('x', variables)} * w[0]")


def window(kernel: KernelText) -> None:
    variables = kernel.loops()
    depth, index = len(variables), ", ".join(variables)
    k, step = next(kernel.names), kernel.rng.choice([1, 1, 2])
    shift = kernel.rng.randrange(3)
    kernel.add(depth, f"for {k} in range(3):")
    position = f"{variables[0]} + {k} * {step} - {shift}"
    kernel.add(depth + 1, f"if {position} >= 0 and {position} < n:")
    others = ", ".join([position, *variables[1:]])
    kernel.add(depth + 2, f"out[{index}] += x[{others}] * w[{k}]")


def reduction(kernel: KernelText) -> None:
    variables = kernel.loops()
    depth, index = len(variables), ", ".join(variables)
    total, k = f"total_{next(kernel.names)}", next(kernel.names)
    size = "n" if kernel.rank == 1 else "m"
    kernel.add(depth, f"{total} = T.float64(0.0)")
    bounds = kernel.rng.choice([size, f"0, {size}, 2", f"min({variables[-1]} + 2, {size})"])
    kernel.add(depth, f"for {k} in range({bounds}):")
    kernel.add(depth + 1, f"{total} = {total} * 0.5 + x[{', '.join([*variables[:-1], k])}]")
    kernel.add(depth, f"out[{index}] = {total} + {kernel.load('x', variables)}")


def scan(kernel: KernelText) -> None:
    total = f"total_{next(kernel.names)}"
    kernel.add(0, f"{total} = T.float64(0.0)")
    variables = kernel.loops()
    depth, index = len(variables), ", ".join(variables)
    kernel.add(depth, f"{total} = {total} * 0.5 + {kernel.load('x', variables)}")
    kernel.add(depth, f"out[{index}] = {total}")


def delay(kernel: KernelText) -> None:
    last = f"last_{next(kernel.names)}"
    kernel.add(0, f"{last} = T.float64(0.0)")
    variables = kernel.loops()
    depth, index = len(variables), ", ".join(variables)
    kernel.add(depth, f"out[{index}] = {last}")
    kernel.add(depth, f"{last} = x[{index}]")


def through_scratch(kernel: KernelText) -> None:
    row = f"row_{next(kernel.names)}"
    size = "n" if kernel.rank == 1 else "m"
    kernel.add(0, f'{row} = T.zeros(({size},), "float64")')
    depth = 0
    outer: list[str] = []
    if kernel.rank == 2:
        outer = [next(kernel.names)]
        kernel.add(0, f"for {outer[0]} in range(n):")
        depth = 1
    i, j = next(kernel.names), next(kernel.names)
    kernel.add(depth, f"for {i} in range({size}):")
    kernel.add(depth + 1, f"{row}[{i}] = {kernel.load('x', [*outer, i])}")
    kernel.add(depth, f"for {j} in range({size}):")
    reversed_index = kernel.rng.choice([j, f"{size} - 1 - {j}"])
    kernel.add(depth + 1, f"out[{', '.join([*outer, j])}] = {row}[{reversed_index}] + {row}[{j}]")


def recurrence(kernel: KernelText) -> None:
    row = f"row_{next(kernel.names)}"
    kernel.add(0, f'{row} = T.zeros((n,), "float64")')
    i = next(kernel.names)
    tail = ", 0" if kernel.rank == 2 else ""
    kernel.add(0, f"for {i} in range(n):")
    back = kernel.rng.choice([1, 2])
    kernel.add(
        1, f"{row}[{i}] = x[{i}{tail}] + ({row}[{i} - {back}] * 0.5 if {i} >= {back} else 0.0)"
    )
    variables = kernel.loops()
    index = ", ".join(variables)
    kernel.add(len(variables), f"out[{index}] = {row}[{variables[0]}]")


def early_exit(kernel: KernelText) -> None:
    variables = kernel.loops()
    depth, index = len(variables), ", ".join(variables)
    test = kernel.rng.choice([f"{variables[0]} > 3", f"x[{index}] > 0.3"])
    kernel.add(depth, f"if {test}:")
    kernel.add(depth + 1, kernel.rng.choice(["break", "continue"]))
    kernel.add(depth, f"out[{index}] = {kernel.load('x', variables)} + w[1]")


def flat(kernel: KernelText) -> None:
    i = next(kernel.names)
    size = "n" if kernel.rank == 1 else "n * m"
    kernel.add(0, f"for {i} in range({size}):")
    kernel.add(1, f"out.flat[{i}] = x.flat[{size} - 1 - {i}] * w[2]")


BODIES = [
    elementwise,
    guarded,
    window,
    reduction,
    scan,
    delay,
    through_scratch,
    recurrence,
    early_exit,
    flat,
]


def main_of(text: str) -> str:
    """Returns the source of a function that calls the kernel `f`."""
    dims = [d for d in ("n", "m") if f'"{d}"' in text]
    shape = ", ".join([f'"{d}"' for d in dims]) + ","
    names = ", ".join(dims) + ","
    lines = [f"    {d} = T.int64()" for d in dims]
    return "\n".join(
        [
            "@R.function",
            f'def main(x: R.Tensor(({shape}), "float64"), w: R.Tensor((3,), "float64")):',
            *lines,
            f'    y = R.call_kernel(f, (x, w), out_sinfo=R.Tensor(({names}), "float64"))',
            "    return y",
            "",
        ]
    )
