"""RealizeVDevice places values of unknown vdevice where their users are."""

import pytest

import structir
from structir import passes
from structir.analysis import check_well_formed

PARAMS = ", ".join([f'{name}: R.Tensor((2,), "float32")' for name in "xyzq"])


def realized(*lines):
    body = "\n    ".join(lines)
    text = f'@R.function\ndef main({PARAMS}, c: R.Tensor((), "bool")):\n    {body}\n'
    module = structir.parse(text)
    result = passes.RealizeVDevice()(module)
    check_well_formed(result)
    assert structir.structural_equal(structir.parse(result.script()), result)
    assert passes.RealizeVDevice()(result) is result
    return module, result


def vdevices(function):
    values = [*function.params, *[binding.var for binding in function.bindings()]]
    return {v.name: str(getattr(v.struct_info, "vdevice", None)) for v in values}


def on(vdevice):
    return f'R.Tensor((2,), "float32", "{vdevice}")'


def test_operands_are_placed_from_results_to_parameters():
    _, result = realized("a = R.add(x, y)", f"b: {on('cuda')} = R.exp(a)", "return (b, z)")
    placed = vdevices(result["main"])
    assert [placed[name] for name in "xyabz"] == ["cuda"] * 4 + ["None"]


def test_siblings_of_a_placed_value_follow_it():
    lines = ["a = R.exp(x)", f"b: {on('cuda')} = R.exp(x)", "d = R.add(a, y)", "return (b, d)"]
    placed = vdevices(realized(*lines)[1]["main"])
    assert [placed[name] for name in "xabd"] == ["cuda"] * 4


def test_branches_and_fields_are_placed():
    lines = [
        "if c:\n        r = R.exp(x)\n    else:\n        r = R.multiply(y, z)",
        f"a: {on('llvm')} = R.negative(r)",
        "s = R.split(a, 2)",
        "return (s[0], a)",
    ]
    function = realized(*lines)[1]["main"]
    placed = vdevices(function)
    assert [placed[name] for name in "xyzra"] == ["llvm"] * 5
    assert {str(info.vdevice) for info in function.ret_struct_info.fields} == {"llvm"}


@pytest.mark.parametrize(
    "lines",
    [
        [f"a: {on('cuda')} = R.exp(x)", f"b: {on('llvm')} = R.exp(x)", "return (a, b)"],
        ['a = R.to_vdevice(x, "cuda")', "return a"],
        [
            f"a: {on('cuda')} = R.exp(x)",
            f"b: {on('llvm')} = R.exp(y)",
            "return (a, b, R.add(x, y))",
        ],
    ],
)
def test_values_that_need_a_move_stay_unplaced(lines):
    module, result = realized(*lines)
    assert result is module


def test_functions_that_others_call_are_unchanged():
    module = structir.parse("""
@I.ir_module
class Module:
    @R.function
    def helper(x: R.Tensor((2,), "float32")):
        y: R.Tensor((2,), "float32", "cuda") = R.exp(x)
        return y

    @R.function
    def main(x: R.Tensor((2,), "float32")):
        return R.exp(cls.helper(x))
""")
    result = passes.RealizeVDevice()(module)
    assert result["helper"] is module["helper"]
    check_well_formed(result)
