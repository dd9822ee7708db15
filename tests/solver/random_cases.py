"""Generates random programs with a known solution: concrete shapes, some of them then hidden."""

from random import Random
from typing import Any

from tests.solver.concrete import FORWARD, Refused, Shape

Case = dict[str, Any]
SIZES = (1, 1, 2, 2, 3, 4, 5)
NAMES = "nmkh"


def random_case(random: Random) -> Case:
    """Generates a case with one known solution."""
    shapes: dict[str, Shape] = {}
    params: list[str] = []
    ops: list[Case] = []
    for _ in range(random.randint(1, 3)):
        add_param(random, random_shape(random), shapes, params)
    current = params[0]
    for number in range(random.randint(1, 6)):
        made = random_op(random, current, shapes, params)
        if made is not None:
            made |= {"id": f"op{number}", "out": [f"t{number}"]}
            operands = [shapes[name] for name in made["in"]]
            try:
                shapes[f"t{number}"] = FORWARD[made["op"]](made["attrs"], *operands)
            except Refused:
                continue
            ops.append(made)
            current = f"t{number}" if random.random() < 0.8 else random.choice(list(shapes))
    names: dict[int, str] = {}
    used = {name for op in ops for name in op["in"]}
    return {
        "params": [
            {"name": p, "shape": hidden(random, shapes[p], names, 0.6)} for p in params if p in used
        ],
        "ops": ops,
        "annotations": {
            op["out"][0]: hidden(random, shapes[op["out"][0]], names, 0.3)
            for op in ops
            if random.random() < 0.35
        },
        "solution": {p: shapes[p] for p in params if p in used},
        "expect": {"status": "ok", "shapes": {}},
    }


def add_param(random: Random, shape: Shape, shapes: dict[str, Shape], params: list[str]) -> str:
    name = f"p{len(params)}"
    shapes[name] = shape
    params.append(name)
    return name


def random_shape(random: Random, most: int = 3) -> Shape:
    return tuple(random.choice(SIZES) for _ in range(random.randint(0, most)))


def hidden(random: Random, shape: Shape, names: dict[int, str], rate: float) -> list[Any] | None:
    """Returns a shape with some sizes hidden or named; equal names are equal sizes."""
    if random.random() < rate * 0.6:
        return None
    entries: list[Any] = []
    for size in shape:
        draw = random.random()
        if draw < rate * 0.5:
            entries.append(None)
        elif draw < rate:
            entries.append(names.setdefault(size, NAMES[len(names) % 4] + str(len(names))))
        else:
            entries.append(size)
    return entries


def narrowed(random: Random, shape: Shape) -> Shape:
    """Generates a shape that broadcasts to another."""
    kept = shape[random.randint(0, len(shape)) :]
    return tuple(size if random.random() < 0.6 else 1 for size in kept)


def random_op(random: Random, x: str, shapes: dict[str, Shape], params: list[str]) -> Case | None:
    """Generates an op with the first operand x, and further operands that match it."""
    shape = shapes[x]
    rank = len(shape)

    def param(wanted: Shape) -> str:
        same = [name for name, known in shapes.items() if known == wanted and name != x]
        if same and random.random() < 0.4:
            return random.choice(same)
        return add_param(random, wanted, shapes, params)

    def axis(room: int) -> int:
        return random.choice([random.randrange(room), random.randrange(room) - room])

    kind = random.choice(list(FORWARD))
    attrs: dict[str, Any] = {}
    operands = [x]
    match kind:
        case "add":
            mode = random.choice(["multi", "multi", "none", "one"])
            attrs = {} if mode == "multi" else {"broadcast": mode}
            other = {"none": shape, "one": narrowed(random, shape)}.get(mode)
            if other is None:
                other = random.choice([narrowed(random, shape), (2, *shape), shape])
            operands.append(param(other))
        case "where":
            operands += [param(narrowed(random, shape)), param(narrowed(random, shape))]
        case "matmul" if rank >= 2:
            batch = random.choice([(), shape[:-2], narrowed(random, shape[:-2])])
            operands.append(param((*batch, shape[-1], random.choice(SIZES))))
            if batch == shape[:-2] and random.random() < 0.3:
                attrs = {"batch": "equal"}
        case "linear" if rank:
            outer = random.choice(SIZES)
            operands.append(param((outer, shape[-1])))
            if random.random() < 0.4:
                operands.append(param((outer,)))
        case "conv1d" if rank == 3:
            attrs = {"stride": random.choice([1, 1, 2]), "pad": random.choice([0, 1])}
            kernel = random.choice([1, 2, 3])
            operands.append(param((random.choice(SIZES), shape[1], kernel)))
        case "transpose":
            order = random.sample(range(rank), rank)
            attrs = {"axes": order} if order and random.random() < 0.6 else {}
        case "reduce" | "softmax" | "repeat" if rank:
            attrs = {"axis": axis(rank)}
            if kind == "reduce":
                attrs["keepdims"] = random.random() < 0.4
            if kind == "repeat":
                attrs["n"] = random.choice([2, 3])
        case "concat" if rank:
            where = axis(rank)
            other_shape = list(shape)
            other_shape[where] = random.choice(SIZES)
            attrs, operands = {"axis": where}, [x, param(tuple(other_shape))]
        case "flatten" if rank:
            attrs = {"start": random.randrange(rank)}
        case "reshape":
            attrs = {"shape": [*random.sample(shape, rank), 1] if random.random() < 0.5 else [-1]}
        case "expand_dims":
            attrs = {"axis": axis(rank + 1)}
        case "squeeze" if 1 in shape:
            attrs = {"axis": shape.index(1)}
        case "pad" if rank:
            attrs = {"width": [[random.randint(0, 1), random.randint(0, 2)] for _ in shape]}
        case "einsum" if rank >= 2:
            attrs = {"spec": "a *s b -> *s b a"}
        case "broadcast_like":
            operands.append(param((2, *shape)[random.randint(0, 1) :]))
        case "embedding":
            operands.append(param((random.choice(SIZES), random.choice(SIZES))))
        case "relu":
            pass
        case _:
            return None
    return {"op": kind, "in": operands, "attrs": attrs}
