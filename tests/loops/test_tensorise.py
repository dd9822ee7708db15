"""Loop nests in any form become the library function that computes the same."""

from random import Random

import numpy as np

import structir
from structir.ir import dims
from structir.ir.module import IRModule
from structir.loops.primitives import find_primitive
from structir.loops.schedule.refusal import ScheduleError
from tests.loops.running import arguments, parsed, run

LEFT = ["a[i, k]", "a[k, i]", "a[i + 1, k]", "a[k]", "a[i]", "a[j, k]", "a[0, k]", "a[2*i, k]"]
RIGHT = ["b[k, j]", "b[j, k]", "b[k, j + 1]", "b[j]", "b[k]", "b[k, 0]"]
SIZES = {"i": "n", "j": "m", "k": "p", "i + 1": "n + 1", "j + 1": "m + 1", "2*i": "2 * n", "0": "1"}


def random_nest(rng: Random) -> str:
    """Returns the source of a kernel with a nest that may be a product or a transposed copy."""
    dtype, left, right = rng.choice(["float32", "float64"]), rng.choice(LEFT), rng.choice(RIGHT)
    out = rng.choice(["c[i, j]", "c[j, i]"])
    factors = [left, right] if rng.random() < 0.5 else [right, left]
    ranges = {v: rng.choice([SIZES[v], SIZES[v], f"1, {SIZES[v]}"]) for v in "ijk"}
    product, terms = " * ".join(factors), f"for k in range({ranges['k']}):"
    start, scalar = f"T.{dtype}(0.0)", [f"t = T.{dtype}(0.0)", terms, "    t = SUM", f"{out} = t"]
    body = rng.choice(
        [
            [line.replace("SUM", f"t + {product}") for line in scalar],
            [line.replace("SUM", f"T.add_to(t, {product})") for line in scalar],
            [f"{out} = {start}", terms, f"    {out} = {product} + {out}"],
            [f"{out} = {rng.choice([left, right]).replace('k', '0')}"],
        ]
    )
    params = [f"{e[0]}: R.Tensor(({_shape(e)},), '{dtype}')" for e in (left, right, out)]
    params.insert(0, "z: R.Tensor(('n', 'm', 'p'), 'float32')")
    loops = [f"for {v} in range({ranges[v]}):" for v in rng.sample("ij", 2)]
    head = f"@I.kernel\ndef f({', '.join(params)}):\n    {loops[0]}\n        {loops[1]}\n"
    return head + "\n".join(f"            {line}" for line in body)


def _shape(element: str) -> str:
    return ", ".join(f"'{SIZES[i]}'" if i != "0" else "1" for i in element[2:-1].split(", "))


def check_nest(seed: int, compiles: bool = False) -> bool:
    """Compares the results of a nest before and after; returns whether it was replaced."""
    rng = Random(seed)
    kernel = parsed(random_nest(rng))
    try:
        new = find_primitive("tensorise")(kernel, rng.choice(["i", "j"]))
    except ScheduleError as error:
        assert all(len(d.notes) == 2 and d.hint for d in error.diagnostics)
        return False
    assert structir.structural_equal(parsed(str(new)), new) and "T.t" in str(new)
    symbols = {s for p in kernel.params for d in p.struct_info.dims for s in dims.syms(d)}  # type: ignore[union-attr]
    sizes = {s: rng.choice([1, 2, 3, 5, 17]) for s in sorted(symbols, key=lambda s: s.name)}
    arrays = arguments(kernel, sizes, seed)
    (expected,) = run(kernel, arrays, sizes)
    results = run(new, arrays, sizes)
    if compiles:
        results.append(arrays[-1].copy())
        structir.compile(IRModule({"f": new}))["f"](*arrays[:-1], results[-1])
    for result in results:
        np.testing.assert_allclose(result, expected, 1e-4, 1e-4)
    return True


def test_random_nests_keep_their_results() -> None:
    assert sum(check_nest(seed, compiles=seed in (3, 4)) for seed in range(40)) > 10
