"""Generates the text of programs with closures, of n bindings including those in closures; TVM and StructIR parse it.

Kinds: "one" closure, one in 7 bindings ("many"), closures in closures ("nested"), and closures that call themselves ("recursive").
"""
KINDS = ("one", "many", "nested", "recursive")
INFO = 'R.Tensor((n, 16), dtype="float32")'
PARAM = 'R.Tensor(("n", 16), dtype="float32")'
HEADER = ["@I.ir_module", "class Module:", "    @R.function", f'    def main(x: {PARAM}, y: {PARAM}, c: R.Tensor((), "bool")) -> {PARAM}:', "        n = T.int64()"]


class Text:
    def __init__(self):
        self.lines, self.count = list(HEADER), 0

    def bind(self, value, depth=2, name=None):
        name = name or f"v{self.count}"
        self.lines.append("    " * depth + f"{name}: {INFO} = {value}"); self.count += 1
        return name

    def closure(self, name, body, depth=2, param="a"):
        indent = "    " * depth
        self.lines += [indent + "@R.function", indent + f"def {name}({param}: {INFO}) -> {INFO}:"]
        result = body(depth + 1)
        self.lines.append(indent + f"    return {result}"); self.count += 1


def add_closure(text, kind, name, value):
    """Adds a closure that captures a value, and a call of it."""
    def product(depth): return text.bind(f"R.multiply(a, {value})", depth)
    def outer(depth):
        text.closure(f"{name}_in", lambda d: text.bind(f"R.add(b, {value})", d), depth, "b")
        return text.bind(f"{name}_in(a)", depth)
    def recursive(depth):
        indent, result = "    " * depth, f"r_{name}"
        text.lines.append(indent + "if c:"); text.bind(f"{name}(a)", depth + 1, result)
        text.lines.append(indent + "else:"); text.bind(f"R.add(a, {value})", depth + 1, result)
        text.count += 1
        return result
    text.closure(name, {"nested": outer, "recursive": recursive}.get(kind, product))
    return text.bind(f"{name}({value})")


def gen(kind, n):
    text, value = Text(), "x"
    while text.count < n:
        if text.count + 7 <= n and (kind != "one" or text.count == 0):
            value = add_closure(text, kind, f"f{text.count}", value)
        for _ in range(3):
            if text.count < n: value = text.bind(f"R.add({value}, y)")
    return "\n".join([*text.lines, f"        return {value}", ""])
