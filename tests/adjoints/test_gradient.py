"""The pass `gradient` against differences, on programs with every form that it goes through; and
what it says of programs that it refuses."""

from typing import Any

import numpy as np
import pytest

import structir
from structir import opaque_op, passes, struct_info
from structir.adjoints.tangents import Tangents
from structir.errors import DiagnosticError, StructIRError
from structir.ir import Call, IRModule, StructInfo, TensorStructInfo, structural_equal
from structir.ir.struct_info import KINDS
from tests.adjoints.differences import assert_gradient

RNG = np.random.default_rng(5)


def real(*shape: int) -> np.ndarray:
    return np.asarray(RNG.standard_normal(shape))


def differentiated(text: str, **options: object) -> tuple[IRModule, IRModule]:
    """The module, and the module with the gradient of main; well formed, and text that reads."""
    module = structir.parse(text)
    with passes.PassContext([passes.VerifyIR(), passes.VerifyResults()]):
        made = passes.Gradient(**options)(module)
    assert structural_equal(structir.parse(made.script()), made)
    return module, made


def ops_of(made: IRModule, name: str = "main_adjoint") -> list[str]:
    values = [binding.value for binding in made[name].bindings()]
    return [getattr(value.op, "name", "?") for value in values if isinstance(value, Call)]


FORMS = {
    "broadcasting": (
        """
        @R.function
        def main(x: R.Tensor(("n", "m"), "float64"), b: R.Tensor(("m",), "float64"),
                 c: R.Tensor(("n", 1), "float64"), s: R.Tensor((), "float64")):
            y = R.add(x, b)
            z = R.multiply(R.multiply(y, c), s)
            return R.sum(R.tanh(z))
        """,
        lambda: (real(3, 4), real(4), real(3, 1), real()),
    ),
    "tuples": (
        """
        @R.function
        def main(x: R.Tensor(("n", 6), "float64"),
                 p: R.Tuple(R.Tensor((6,), "float64"), R.Tuple(R.Tensor((), "float64")))):
            t = R.split(x, 3, axis=1)
            a = (t[2], (t[0], x))
            b = a[1]
            inner = p[1]
            joined = R.concat((b[0], a[0], b[1]), axis=1)
            y = R.multiply(R.multiply(b[1], p[0]), inner[0])
            return R.add(R.sum(R.sin(joined)), R.sum(R.square(y)))
        """,
        lambda: (real(2, 6), (real(6), (real(),))),
    ),
    "calls": (
        """
        @R.function
        def twice(a: R.Tensor(("k", 3), "float64"), b: R.Tensor((3,), "float64")):
            c = R.multiply(R.sin(a), b)
            return (c, R.sum(c, axis=[0]), a)

        @R.function
        def main(x: R.Tensor(("n", 3), "float64"), w: R.Tensor((3,), "float64")):
            with R.dataflow():
                r = twice(x, w)
                q = twice(r[0], r[1])
                u = R.sum(R.exp(R.tanh(q[0])))
                v = R.add(u, R.sum(r[2]))
                R.output(v)
            return v
        """,
        lambda: (real(4, 3), real(3)),
    ),
    "a function that calls itself": (
        """
        @R.function
        def power(x: R.Tensor((), "float64"), k: R.Tensor((), "int64")) -> R.Tensor((), "float64"):
            if R.less(k, R.const(1, "int64")):
                r = R.exp(R.multiply(x, R.const(0.1, "float64")))
            else:
                less: R.Tensor((), "float64") = power(x, R.subtract(k, R.const(1, "int64")))
                r = R.multiply(x, less)
            return r

        @R.function
        def main(x: R.Tensor((), "float64"), k: R.Tensor((), "int64")):
            return power(R.sin(x), k)
        """,
        lambda: (real(), np.asarray(3)),
    ),
    "branches in branches": (
        """
        @R.function
        def main(x: R.Tensor(("n",), "float64"), w: R.Tensor(("n",), "float64"),
                 p: R.Tensor((), "bool"), q: R.Tensor((), "bool")):
            n = T.int64()
            k = T.int64()
            a = R.sin(x)
            if p:
                if q:
                    u = R.multiply(a, w)
                    y = R.match_cast(u, R.Tensor((k,), "float64"))
                    b = R.exp(R.tanh(y))
                else:
                    b = a
                c = R.sum(R.multiply(b, b))
            else:
                c = R.sum(R.square(w))
            return R.add(c, R.sum(w))
        """,
        lambda: (real(3), real(3), np.asarray(True), np.asarray(bool(RNG.integers(2)))),
    ),
    "closures": (
        """
        @R.function
        def main(x: R.Tensor(("n",), "float64"), w: R.Tensor(("n",), "float64")):
            n = T.int64()
            s = R.sin(w)
            @R.function
            def times(a: R.Tensor(("n",), "float64")):
                return R.multiply(a, s)
            @R.function
            def half(a: R.Tensor(("m",), "float64")):
                return R.multiply(a, R.const(0.5, "float64"))
            return R.sum(R.square(half(times(times(x)))))
        """,
        lambda: (real(3), real(3)),
    ),
    "sizes that a cast finds": (
        """
        @R.function
        def main(x: R.Tensor(ndim=2, dtype="float64"), w: R.Tensor((4,), "float64")):
            n = T.int64()
            y = R.match_cast(x, R.Tensor((n, 4), "float64"))
            z = R.reshape(R.multiply(y, w), (2, 2 * n))
            return R.sum(R.matmul(z, R.permute_dims(z)))
        """,
        lambda: (real(3, 4), real(4)),
    ),
    "rows of a result that are borrowed while they are free": (
        """
        @R.function
        def main(x: R.Tensor(("n", 4), "float64"), z: R.Tensor(("n", 4), "float64")):
            return R.mean(R.multiply(R.nn.softmax(z), x))
        """,
        lambda: (real(3, 4), real(3, 4)),
    ),
    "one operand in two places of an op made of parts": (
        """
        @R.function
        def main(x: R.Tensor(("n", 4), "float64"), b: R.Tensor((4,), "float64")):
            return R.sum(R.sin(R.nn.layer_norm(x, b, b, axes=[-1])))
        """,
        lambda: (real(3, 4), real(4)),
    ),
    "a list of operands, twice the same": (
        """
        @R.function
        def main(x: R.Tensor(("n", 2), "float64")):
            t = (x, R.exp(x), x)
            y = R.concat(t, axis=0)
            e = R.einsum((x, x), subscripts="ij,ij->i")
            return R.add(R.mean(R.square(y)), R.sum(R.tanh(e)))
        """,
        lambda: (real(3, 2),),
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_gradients_agree_with_finite_differences(form: str) -> None:
    text, arguments = FORMS[form]
    module, made = differentiated(text)
    assert_gradient(module, made, arguments())


def test_branches_not_taken_have_zero_cotangents() -> None:
    text, _ = FORMS["branches in branches"]
    module, made = differentiated(text)
    arguments = real(3), real(3), np.asarray(False), np.asarray(True)
    assert_gradient(module, made, arguments)
    _, (x_grad, _) = structir.interpret(made, "main_adjoint", *arguments)
    np.testing.assert_array_equal(x_grad, 0)


CHOSEN = """
@R.function
def main(x: R.Tensor(("n", 3), "float32"), w: R.Tensor((3, 2), "float32"),
         i: R.Tensor(("n",), "int64"), unread: R.Tensor((4,), "float32")):
    with R.dataflow():
        h = R.matmul(x, w)
        l = R.mean(R.square(h))
        c = R.max(h)
        R.output(l, c)
    return (l, c)
"""


def test_only_requested_gradients_are_computed() -> None:
    _, made = differentiated(CHOSEN, parameters="w")
    assert ops_of(made).count("grad.adjoint") == 3  # mean, square, matmul by w
    _, made = differentiated(CHOSEN, parameters="unread", value_and_grad=False)
    assert ops_of(made) == ["zeros_like"]


def test_options_select_parameters_targets_and_results() -> None:
    _, made = differentiated(CHOSEN, parameters="unread, x", target=1, value_and_grad=False)
    x, w = np.ones((2, 3), "float32"), np.asarray([[1, 2], [1, 2], [1, 3]], "float32")
    unread_grad, x_grad = structir.interpret(
        made, "main_adjoint", x, w, np.zeros(2, "int64"), np.ones(4, "float32")
    )
    np.testing.assert_array_equal(unread_grad, np.zeros(4))
    np.testing.assert_array_equal(x_grad, np.asarray([[1, 1, 1.5]] * 2))  # a tie is shared


def test_default_is_all_floating_point_parameters() -> None:
    module = structir.parse(CHOSEN)
    made = passes.Gradient()(module)
    assert made["main"] is module["main"]
    _, gradients = made["main_adjoint"].ret_struct_info.fields
    params = module["main"].params
    assert [str(g) for g in gradients.fields] == [str(params[k].struct_info) for k in (0, 1, 3)]


def refusal(text: str, **options: object) -> str:
    with pytest.raises(DiagnosticError) as caught:
        passes.Gradient(**options)(structir.parse(text))
    return str(caught.value)


def test_integer_parameters_are_rejected() -> None:
    said = refusal(CHOSEN, parameters="x i")
    assert "cannot differentiate with respect to `i`" in said
    assert "int64" in said and "<string>:4" in said
    assert "required by the gradient of main with respect to x, i" in said


def test_ops_without_gradient_are_rejected_with_a_reason() -> None:
    said = refusal(
        """
@R.function
def main(x: R.Tensor(("n", 4), "float32")):
    u = R.unique(x)
    return R.sum(u)
"""
    )
    assert "unique: not differentiable: the number of distinct elements depends" in said
    assert "u = R.unique(x)\n" in said and "^^^^^^^^^^^" in said


def test_non_differentiable_ops_off_the_gradient_path_are_accepted() -> None:
    _, made = differentiated(
        """
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("n",), "float32")):
            u = R.unique(y)
            v = R.unique(R.grad.no_grad(x))
            return R.add(R.sum(R.exp(x)), R.add(R.sum(u), R.sum(v)))
        """,
        parameters="x",
    )
    assert ops_of(made).count("unique") == 2


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("return x", "expected a floating-point scalar as the result"),
        ("return R.argmax(R.flatten(x), axis=0)", "expected a floating-point scalar as the result"),
        ("return (R.shape([2]), R.sum(x))", "floating-point scalar as field 0 of the result"),
        (
            'y = R.call_packed("f", x, sinfo_args=R.Tensor((), "float32"))\n    return y',
            "f: not differentiable: it is an external function without a gradient rule",
        ),
        ('y = R.call_packed("f", x)\n    return R.sum(R.match_cast(y, R.Tensor((2,), "float32")))',
         "f: not differentiable: its result has no known StructInfo"),
    ],
)  # fmt: skip
def test_other_invalid_programs_are_rejected(body: str, why: str) -> None:
    head = '@R.function(pure=False)\ndef main(x: R.Tensor(("n", 4), "float32")):\n    '
    assert why in refusal(head + body)


def test_side_effects_do_not_run_twice() -> None:
    text = """
@R.function(pure=False)
def main(x: R.Tensor((), "float32"), p: R.Tensor((), "bool")):
    if p:
        {}
    else:
        r = x
    return r
"""
    used = 'y = R.call_packed("f", x, sinfo_args=R.Tensor((), "float32"))\n        r = R.sin(y)'
    said = refusal(text.format(used))
    assert "its side effects would run twice" in said and "R.call_packed" in said
    told = 'y = R.call_packed("f", x, sinfo_args=R.Object())\n        r = R.sin(x)'
    made = passes.Gradient()(structir.parse(text.format(told)))
    assert made.script().count("call_packed") == 2  # in main, and once in its gradient


def test_invalid_names_are_rejected() -> None:
    module = structir.parse(CHOSEN)
    made = passes.Gradient()(module)
    with pytest.raises(StructIRError, match="function main_adjoint already exists in the module"):
        passes.Gradient()(made)
    with pytest.raises(
        StructIRError, match="no parameter `q` in the function; available: x, w, i, unread"
    ):
        passes.Gradient(parameters="q")(module)
    assert str(passes.pipeline("grad{parameters=w value_and_grad=false}")(module)) == str(
        passes.Gradient(parameters="w", value_and_grad=False)(module)
    )


def test_long_programs_are_differentiated() -> None:
    lines = [f"    h{k + 1} = R.sin(h{k})" for k in range(3000)]
    text = '@R.function\ndef main(h0: R.Tensor((2,), "float32")):\n' + "\n".join(lines)
    made = passes.Gradient()(structir.parse(text + "\n    return R.sum(h3000)\n"))
    assert ops_of(made).count("grad.adjoint") == 3001


def test_a_gradient_has_no_state() -> None:
    """The result of a gradient is nested: the attributes of the function do not describe it."""
    _, made = differentiated("""
        @R.function
        def main(x: R.Tensor(("n",), "float32"), count: R.Tensor((), "float32")):
            R.func_attr({"state": {"count": ("count", 1)}})
            return (R.sum(x * count), count + R.const(1.0, "float32"))
    """)
    (total, count), (gradient, _) = structir.interpret(
        made, "main_adjoint", np.ones(2, "float32"), np.float32(3)
    )
    assert (total, count, gradient.tolist()) == (6, 4, [3, 3])
    assert "state" in made["main"].attrs and "state" not in made["main_adjoint"].attrs


@struct_info
class PairedStructInfo(StructInfo):
    """A value of another package, which holds tensors."""


del KINDS["Paired"]


@opaque_op(lambda x: PairedStructInfo(), "testing.paired")
def paired(x: Any) -> Any:
    return (x, x)


@opaque_op(lambda pair: TensorStructInfo((3,), "float64"), "testing.unpaired")
def unpaired(pair: Any) -> Any:
    return pair[0]


def test_a_value_of_another_package_hides_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "Paired", PairedStructInfo)
    text = '@R.function\ndef main(x: R.Tensor((3,), "float64")):\n'
    text += "    return R.sum(R.testing.unpaired(R.testing.paired({})){})\n"
    with pytest.raises(DiagnosticError, match="unpaired: not differentiable"):
        differentiated(text.format("x", ""))
    with pytest.raises(DiagnosticError, match=r"paired: not differentiable: the tangent of"):
        Tangents(structir.parse(text.format("x", ""))).add("tangent", "main", [0])
    _, made = differentiated(text.format("R.grad.no_grad(x)", " + x"))
    _, (slope,) = structir.interpret(made, "main_adjoint", real(3))
    assert slope.tolist() == [1, 1, 1]
