"""Generates the table of TVM's spellings in a page:
`python -m structir.tools.tvm_page docs/coming-from-tvm.md`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from structir.printer.parser.tvm_spellings import SPELLINGS, VALUES, Spelling

START, END = "<!-- spellings: generated -->\n", "<!-- end of spellings -->\n"
FORMS = (
    (
        '`I.module_global_infos({"vdevice": [...]})`, `R.Tensor(shape, dtype, "cuda:0:global")`',
        "the same",
        "a module without a list may use every vdevice; other global infos are ignored",
    ),
    (
        '`n = T.dynamic("n", "int64")`, `n = TypeVar("n")`',
        "`n = T.int64()`",
        "also above functions",
    ),
    ("`n: T.int64`, a parameter", '`n: R.Prim("int64", value="n")`', "`n` is also a size"),
    ("`relax.op.add(x, y)`, and all other names of `relax`", "`R.add(x, y)`", ""),
    ("`T.float32(value)`, and all other dtypes", "`value`", ""),
    ("bare `R.Tuple`", "`R.Tuple()`", "the tuple without fields"),
    ("`ty_args=`", "`sinfo_args=`", ""),
    ("`out_ty=`", "`out_sinfo=`", ""),
    ('`out_dtype="void"`, `out_dtype=""`', "no argument", "the dtype of the operands"),
    ('`R.Tensor(shape, "void")`', "`R.Tensor(shape)`", "an unknown dtype"),
    (
        '`R.call_dps_packed("f", args, out_sinfo=...)`',
        '`R.call_pure_packed("structir.call_dps", ...)`',
        "the function receives its operands and new arrays for its results",
    ),
    (
        "`R.layout_transform(x, index_map=lambda i, j: (i // 4, j, i % 4), pad_value=0)`",
        "`R.nn.pad`, `R.reshape`, `R.permute_dims`, `R.reshape`",
        "index maps that split, permute and fuse axes",
    ),
    (
        "`R.const(3)` of dtype int32",
        "`R.const(3)` of dtype int64",
        "as an operand next to integers, their dtype; elsewhere a text of TVM gives a warning: "
        'write `R.const(3, "int32")`',
    ),
    ("`R.null_value()`", "no argument", "outside of arguments of ops, an empty tuple"),
    ('`I.GlobalVar("f")`', "the function `f` of the module", ""),
    ("`R.func_ret_struct_info(info)`, `R.func_ret_value(y)`", "`-> info`, `return y`", ""),
    ('`metadata["relax.expr.Constant"][0]`', "the same", '`parse(text, constants={"...": [...]})`'),
)


def table() -> str:
    """Returns the table in Markdown."""
    rows = [*FORMS, *map(_row, SPELLINGS)]
    for op, values in VALUES.items():
        rows += [(f'`"{old}"` in `R.{op}`', f'`"{new}"`', "") for old, new in values.items()]
    lines = [" | ".join(["", *row]).strip() + " |" for row in rows]
    return "\n".join(["| TVM | StructIR | difference |", "|---|---|---|", *lines, ""])


def _row(spelling: Spelling) -> tuple[str, str, str]:
    if spelling.structir:
        return f"`{spelling.tvm}`", f"`{spelling.structir}`", spelling.note
    note = f"{spelling.note}; {spelling.edit}".replace("|", "\\|")
    return f"`{spelling.tvm}`", "no counterpart", note


def page(text: str) -> str:
    """Returns a page with the table between its marks."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")
