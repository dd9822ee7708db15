"""The operand shapes that ONNX states for attention and recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence

from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.shape_checks import OperandShapes, known_shape, shape_rule
from structir.ir.dims import Dim

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@shape_rule("LSTM", "GRU", "RNN")
def recurrent(node: OnnxNode) -> OperandShapes:
    gates = GATES[node.op_type]
    hidden = node.attr("hidden_size", None)
    sizes: dict[str, Dim] = {"d": 2 if node.attr("direction", "") == "bidirectional" else 1}
    if hidden is not None:
        if hidden < 1:
            node.fail(f"hidden_size: expected a positive integer, found {hidden}")
        sizes["h"] = hidden
    batch_first = node.version >= 14 and node.flag("layout")
    x, state = ("b s i", "b d h") if batch_first else ("s b i", "d b h")
    weights = [f"d {gates}*h i", f"d {gates}*h h", f"d {2 * gates}*h"]
    return OperandShapes([x, *weights, "b", state, state, "d 3*h"], sizes)


@shape_rule("Attention")
def attention(node: OnnxNode) -> Sequence[str | None]:
    rank = len(known_shape(node, 0) or (0,) * 4)
    if node.has(4) != node.has(5):
        missing = node.label(5 if node.has(4) else 4)
        node.fail(f"missing operand {missing}: past_key and past_value belong together")
    if rank == 3:
        q, k, v = _flat_heads(node)
    else:
        q, k, v = "b g q e", "b h k e", "b h k f"
        _check_heads(node, *[(known_shape(node, i) or (1,) * 4)[1] for i in (0, 1)])
    _check_mask(node)
    past = "p e", "p f"
    return [q, k, v, _mask_pattern(node), *[f"b h {each}" for each in past], "b"]


def _flat_heads(node: OnnxNode) -> tuple[str, str, str]:
    """Returns the patterns of queries, keys and values whose heads are concatenated."""
    heads = [node.attr(name) for name in ("q_num_heads", "kv_num_heads")]
    for name, count in zip(("q_num_heads", "kv_num_heads"), heads, strict=True):
        if count < 1:
            node.fail(f"{name}: expected a positive integer, found {count}")
    _check_heads(node, *heads)
    return f"b q {heads[0]}*e", f"b k {heads[1]}*e", f"b k {heads[1]}*f"


def _check_heads(node: OnnxNode, queries: Dim, keys: Dim) -> None:
    """Raises `DiagnosticError` unless each key head serves equally many query heads."""
    if isinstance(queries, int) and isinstance(keys, int) and (keys == 0 or queries % keys):
        node.fail(f"expected a multiple of {keys} key heads, found {queries} query heads")


def _mask_pattern(node: OnnxNode) -> str | None:
    """Returns the pattern of a mask, which broadcasts to the scores; its last axis is checked
    apart."""
    mask, query = known_shape(node, 3), known_shape(node, 0)
    if mask is None or query is None or not mask:
        return None
    heads: Dim = node.attr("q_num_heads") if len(query) == 3 else query[1]
    last = mask[-1]
    known = [query[0], heads, query[-2], last]
    if not all(isinstance(size, int) for size in known):
        return None
    return "~" + " ".join(map(str, known))


def _check_mask(node: OnnxNode) -> None:
    """Raises `DiagnosticError` if a mask has more entries than there are keys."""
    mask, key, past = (known_shape(node, index) for index in (3, 1, 4))
    if not mask or key is None or len(key) < 3 or (node.has(4) and past is None):
        return
    total = key[-2] + (past[-2] if past is not None and len(past) == 4 else 0)
    last = mask[-1]
    if isinstance(total, int) and isinstance(last, int) and last > max(total, 1):
        node.fail(f"operand {node.label(3)}: expected at most {total} keys (axis -1), found {last}")


@shape_rule("RotaryEmbedding")
def rotary_embedding(node: OnnxNode) -> Sequence[str | None]:
    shape = known_shape(node, 0)
    if shape is None:
        return [None, None, None, "b s"]
    table = "p r" if node.has(3) else "b s r"
    return ["b s e" if len(shape) == 3 else "b h s e", table, table, "b s"]
