"""For each check of legality: a kernel whose results are wrong without it.

A row is the check, the module that has it, the kernel, and the primitives applied to it; the last
one is refused.
"""

from typing import Any

import attrs

ROWS = 'x: R.Tensor(("n", "m"), "float32"), out: R.Tensor(("n", "m"), "float32")'
LINE = 'x: R.Tensor(("n",), "float32"), out: R.Tensor(("n",), "float32")'
STENCIL = """
for i in range(1, n):
    for j in range(m - 1):
        out[i, j] = out[i - 1, j + 1] + x[i, j]
"""


@attrs.frozen
class RemovedCheck:
    """A check, and what is wrong without it."""

    module: str  # below structir.loops
    check: str
    parameters: str
    body: str
    steps: tuple[tuple[Any, ...], ...]
    code: str
    allows: Any = None  # what the removed check returns


def _primitive(name: str, check: str, *row: Any, allows: Any = None) -> RemovedCheck:
    return RemovedCheck(f"primitives.{name}", check, *row, allows)


REMOVED_CHECKS = [
    _primitive(
        "split",
        "require_no_break",
        LINE,
        "for i in range(n):\n    if x[i] > 1.0:\n        break\n    out[i] = 1.0",
        (("split", "i", 2),),
        "E1117",
    ),
    _primitive(
        "split",
        "require_fixed_bounds",
        LINE,
        "k = n\nfor i in range(k):\n    out[i] = x[i]\n    k = 1",
        (("split", "i", 2),),
        "E1117",
    ),
    _primitive(
        "split",
        "require_whole_blocks",
        LINE,
        "for i in range(n - n % 2, n):\n    out[i] = 1.0\n"
        "for k in range(n // 2):\n    out[k] = 2.0",
        (("split", "k", 2, "exact"),),
        "E1117",
    ),
    _primitive(
        "reorder",
        "require_own_bounds",
        ROWS,
        "for i in range(n):\n    for j in range(min(i, m)):\n        out[i, j] = x[i, j]",
        (("reorder", "i"),),
        "E1117",
    ),
    _primitive("reorder", "require_exchangeable", ROWS, STENCIL, (("reorder", "i"),), "E1116"),
    _primitive(
        "reorder",
        "require_fixed_bounds",
        ROWS,
        "k = 1\nfor i in range(n):\n    for j in range(min(k, m)):\n"
        "        out[i, j] = x[i, j]\n        k = 3",
        (("reorder", "i"),),
        "E1117",
    ),
    _primitive(
        "reorder",
        "require_no_jump",
        ROWS,
        "for i in range(n):\n    for j in range(m):\n        if x[i, j] > 1.0:\n"
        "            break\n        out[i, j] = 1.0",
        (("reorder", "i"),),
        "E1117",
    ),
    _primitive(
        "fuse",
        "require_fusible",
        LINE,
        "t = T.zeros((n,), 'float32')\nfor i in range(n):\n    t[i] = x[i]\n"
        "for j in range(n):\n    out[j] = t[n - 1 - j]",
        (("fuse", "i", "j"),),
        "E1116",
    ),
    _primitive(
        "fuse",
        "require_same_range",
        LINE,
        "for i in range(n):\n    out[i] = x[i]\nfor j in range(1, n):\n    out[j] = out[j] * 2.0",
        (("fuse", "i", "j"),),
        "E1117",
    ),
    _primitive(
        "fuse",
        "require_following",
        LINE,
        "t = T.zeros((1,), 'float32')\nfor i in range(n):\n    out[i] = x[i]\n"
        "t[0] = 3.0\nfor j in range(n):\n    out[j] = out[j] + t[0]\nt[0] = 4.0",
        (("fuse", "j", "i"),),
        "E1117",
    ),
    _primitive(
        "fuse",
        "require_no_jump",
        LINE,
        "for i in range(n):\n    if x[i] > 1.0:\n        break\n    out[i] = 1.0\n"
        "for j in range(n):\n    out[j] = out[j] + 1.0",
        (("fuse", "i", "j"),),
        "E1117",
    ),
    _primitive(
        "fuse",
        "read_after",
        LINE,
        "t = x[0]\nfor i in range(n):\n    t = x[i]\n    out[i] = t\n"
        "for j in range(n):\n    if x[j] > 0.0:\n        t = 9.0\n"
        "if n > 0:\n    out[0] = t",
        (("fuse", "i", "j"),),
        "E1116",
    ),
    _primitive(
        "fuse",
        "first_uninitialised_read",
        LINE,
        "t = 0.0\nfor i in range(n):\n    t = t + x[i]\nfor j in range(n):\n    out[j] = t",
        (("fuse", "i", "j"),),
        "E1116",
    ),
    _primitive(
        "fission",
        "require_fusible",
        LINE,
        "for i in range(1, n):\n    out[i] = out[i - 1] + 1.0\n    out[i] = out[i] * x[i]",
        (("fission", "i", 1),),
        "E1116",
    ),
    _primitive(
        "fission",
        "require_fixed_bounds",
        LINE,
        "k = n\nfor i in range(k):\n    k = 1\n    out[i] = x[i]",
        (("fission", "i", 1),),
        "E1117",
    ),
    _primitive(
        "fission",
        "require_no_jump",
        LINE,
        "for i in range(n):\n    if x[i] > 1.0:\n        continue\n    out[i] = 1.0",
        (("fission", "i", 1),),
        "E1117",
    ),
    _primitive(
        "unroll",
        "require_no_jump",
        LINE,
        "for i in range(n):\n    for k in range(3):\n        if x[i] > 1.0:\n            break\n"
        "        out[i] = out[i] + 1.0",
        (("unroll", "k"),),
        "E1117",
    ),
    _primitive(
        "collapse",
        "require_own_bounds",
        ROWS,
        "for i in range(n):\n    for j in range(min(i, m)):\n        out[i, j] = x[i, j]",
        (("collapse", "i"),),
        "E1117",
    ),
    _primitive(
        "collapse",
        "require_no_break",
        ROWS,
        "for i in range(n):\n    for j in range(m):\n        if x[i, j] > 1.0:\n"
        "            break\n        out[i, j] = 1.0",
        (("collapse", "i"),),
        "E1117",
    ),
    _primitive(
        "vectorise",
        "require_order_free",
        LINE,
        "for i in range(1, n):\n    out[i] = out[i - 1] + x[i]",
        (("vectorise", "i"),),
        "E1116",
    ),
    _primitive(
        "vectorise",
        "require_no_jump",
        LINE,
        "for i in range(n):\n    if x[i] > 0.5:\n        break\n    out[i] = 1.0",
        (("vectorise", "i"),),
        "E1117",
    ),
    _primitive(
        "parallel",
        "require_order_free",
        LINE,
        "t = T.zeros((1,), 'float32')\nfor i in range(n):\n"
        "    t[0] = t[0] + x[i]\n    out[i] = t[0]",
        (("parallel", "i"),),
        "E1116",
    ),
    _primitive(
        "parallel",
        "require_no_jump",
        LINE,
        "for i in range(n):\n    out[i] = 1.0\n    if x[i] > 0.5:\n        break",
        (("parallel", "i"),),
        "E1117",
    ),
    _primitive(
        "parallel",
        "require_filled_results",
        LINE,
        "for i in range(n):\n    if x[i] > 0.0:\n        out[i] = 1.0",
        (("parallel", "i"),),
        "E1118",
    ),
    RemovedCheck(
        "legality",
        "is_private",
        LINE,
        "t = 0.0\nfor i in range(n):\n    out[i] = t\n    t = x[i]",
        (("vectorise", "i"),),
        "E1116",
        True,
    ),
    RemovedCheck(
        "legality",
        "read_after",
        LINE,
        "t = 0.0\nfor i in range(n):\n    t = x[i]\nif n > 0:\n    out[0] = t",
        (("vectorise", "i"),),
        "E1116",
    ),
    RemovedCheck(
        "legality",
        "first_uninitialised_read",
        LINE,
        "t = 0.0\nfor i in range(n):\n    out[i] = t\n    t = x[i]",
        (("vectorise", "i"),),
        "E1116",
    ),
    RemovedCheck(
        "legality",
        "_moves_apart",
        LINE,
        "for i in range(n):\n    out[i // 2] = x[i] + out[i // 2] * 0.5",
        (("vectorise", "i"),),
        "E1116",
        True,
    ),
    RemovedCheck(
        "legality",
        "_is_disjoint",
        LINE,
        "for i in range(1, n):\n    out[i] = out[i - 1] + x[i]",
        (("vectorise", "i"),),
        "E1116",
        True,
    ),
    RemovedCheck(
        "legality",
        "accumulated",
        LINE,
        "t = 1.0\nfor i in range(n):\n    t = t * 0.5 + x[i]\nif n > 0:\n    out[0] = t",
        (("vectorise", "i"),),
        "E1116",
        "all",
    ),
    RemovedCheck(
        "initialisation",
        "surely_runs",
        ROWS,
        "t = 0.0\nfor i in range(n):\n    out[i, 0] = t\n    for j in range(1, m):\n"
        "        t = x[i, j]\n    out[i, 0] = out[i, 0] + t",
        (("vectorise", "i"),),
        "E1116",
        True,
    ),
    RemovedCheck(
        "initialisation",
        "has_jump",
        ROWS,
        "row = T.zeros((m,), 'float32')\nfor i in range(n):\n    for j in range(m):\n"
        "        if x[i, j] > 0.0:\n            break\n        row[j] = x[i, j]\n"
        "    for k in range(m):\n        out[i, k] = row[k]",
        (("vectorise", "i"),),
        "E1116",
    ),
]
