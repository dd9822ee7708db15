"""Vdevices in annotations, calls and lists of modules: parsed, inferred, printed, checked."""

import re

import numpy as np
import pytest

import structir
from structir import passes
from structir.analysis.vdevices import vdevices_of
from structir.errors import DiagnosticError
from structir.ir import TensorStructInfo, VDevice
from structir.script import I, R
from structir.tools.tvm_dialect import tvm_text

LIST = (
    'I.module_global_infos({"vdevice": [I.vdevice("llvm", 0, "global"), '
    'I.vdevice({"arch": "sm_50", "kind": "cuda"}, 0, "global"), I.vdevice("cuda", 1, "global"), '
    'I.vdevice("metal", 0, "shared")]})'
)


def module(params, *lines, devices=LIST):
    body = "\n        ".join(lines)
    text = f"""
@I.ir_module
class Module:
    {devices}
    @R.function
    def main({params}):
        {body}
"""
    return structir.parse(text)


def vdevice_of(value, params, devices=LIST):
    """Returns the text of the vdevice of a value."""
    result = module(params, f"z = {value}", "return z", devices=devices)
    return str(result["main"].ret_struct_info.vdevice)


X = 'x: R.Tensor((2,), "float32", {x!r})'
PAIR = X + ', y: R.Tensor((2,), "float32", {y!r})'
ON_LLVM = 'x: R.Tensor((2,), "float32", "llvm"), y: R.Tensor((2,), "float32")'
ON_TWO = 'x: R.Tensor((2,), "float32", "llvm"), y: R.Tensor((2,), "float32", "cuda:0:global")'


@pytest.mark.parametrize(
    ("annotation", "vdevice"),
    [
        ("llvm", "llvm"),
        ("cuda", "cuda"),
        ("cuda:1", "cuda:1"),
        ("cuda:1:global", "cuda:1"),
        ("vdevice:2", "cuda:1"),
        ("metal", "metal:0:shared"),
        ("metal:0:shared", "metal:0:shared"),
    ],
)
def test_an_annotation_names_a_device_of_the_module(annotation, vdevice):
    texts = [f'"float32", {annotation!r}', f'"float32", vdevice={annotation!r}']
    for text in (*texts, f'dtype="float32", vdevice={annotation!r}'):
        assert vdevice_of("x", f"x: R.Tensor((2,), {text})") == vdevice
    assert vdevice_of("x", f"x: R.Tensor(vdevice={annotation!r}, ndim=2)") == vdevice


@pytest.mark.parametrize("vdevice", ["llvm", "cuda:3", "hexagon:1:vtcm"])
def test_without_a_list_every_device_is_known(vdevice):
    parameter = f'x: R.Tensor((2,), "float32", {vdevice!r})'
    assert vdevice_of("x", parameter, devices="") == vdevice


@pytest.mark.parametrize(
    ("value", "vdevice"),
    [
        ("R.add(x, y)", "llvm"),
        ("R.add(y, x)", "llvm"),
        ('R.add(R.const([1.0, 2.0], "float32"), x)', "llvm"),
        ("R.matmul(x, y)", "llvm"),
        ("R.sum(x)", "llvm"),
        ("R.reshape(x, (1, 2))", "llvm"),
        ("R.concat((x, y))", "llvm"),
        ("R.split(x, 2)[1]", "llvm"),
        ("R.exp(y)", "None"),
        ('R.to_vdevice(R.add(x, y), "cuda:1:global")', "cuda:1"),
        ('R.to_vdevice(x, dst_vdevice="metal")', "metal:0:shared"),
        ('R.to_vdevice(x, I.vdevice({"arch": "sm_50", "kind": "cuda"}, 0, "global"))', "cuda"),
        ("R.hint_on_device(y, R.cpu(0))", "llvm"),
        ("R.hint_on_device(y, R.cuda(1))", "cuda:1"),
        ('R.hint_on_device(y, R.device(device_type=1, index=0), "global")', "llvm"),
        ('R.hint_on_device(y, R.device(2, 1), memory_scope="global")', "cuda:1"),
    ],
)
def test_a_result_is_on_the_device_of_its_operands(value, vdevice):
    assert vdevice_of(value, ON_LLVM) == vdevice


def test_results_of_rows_of_axes_are_on_the_device_of_the_operands():
    assert vdevice_of("R.add(x, x)", 'x: R.Tensor(("*s", 2), "float32", "cuda")') == "cuda"


@pytest.mark.parametrize("value", ["R.add(x, y)", "R.concat((x, y))", "R.where(c, x, y)"])
def test_operands_on_two_devices_are_an_error_with_a_move(value):
    params = f'{ON_TWO}, c: R.Tensor((2,), "bool")'
    with pytest.raises(DiagnosticError) as caught:
        module(params, f"z = {value}", "return z")
    assert caught.value.code == "E0216"
    assert "x is on llvm, y is on cuda" in str(caught.value)
    edit = re.search(r"`(R.to_vdevice\(.*?\))`", str(caught.value))[1]
    module(params, f"z = {value.replace('y', edit)}", "return z")


@pytest.mark.parametrize(
    ("x", "line"),
    [
        ("llvm", 'y: R.Tensor((2,), "float32", "cuda") = x'),
        ("cuda:1", 'y: R.Tensor((2,), "float32", "cuda") = R.exp(x)'),
    ],
)
def test_an_annotation_on_another_device_is_an_error(x, line):
    with pytest.raises(DiagnosticError, match="contradicts its value"):
        module(X.format(x=x), line, "return y")


def test_an_annotation_places_a_value_of_unknown_device(recwarn):
    params = 'x: R.Tensor((2,), "float32")'
    result = module(params, 'y: R.Tensor((2,), "float32", "cuda:1") = R.exp(x)', "return y")
    assert str(result["main"].ret_struct_info.vdevice) == "cuda:1"
    assert not recwarn.list


WRONG = [
    'R.to_vdevice(x, "gpu:7")',
    'R.to_vdevice(x, "cuda:2")',
    'R.to_vdevice(x, "vdevice:4")',
    'R.to_vdevice(x, "metal:0:global")',
    "R.to_vdevice(x, 3)",
    "R.to_vdevice(x)",
    'R.to_vdevice(x, "cuda", y)',
    'R.to_vdevice(x, "llvm", where=1)',
    'R.to_vdevice(x, "no device")',
    'R.to_vdevice(x, I.vdevice("vulkan", 0))',
    "R.to_vdevice(x, I.vdevice())",
    "R.hint_on_device(x, R.device(99, 0))",
    "R.hint_on_device(x, R.cpu(y))",
]


@pytest.mark.parametrize("value", WRONG)
def test_a_wrong_device_is_an_error_with_a_help(value):
    with pytest.raises(DiagnosticError, match=r"expected .*\n(.*\n)*.*= help: "):
        module(ON_LLVM, f"z = {value}", "return z")


@pytest.mark.parametrize(
    "devices",
    [
        "I.module_global_infos()",
        "I.module_global_infos([1])",
        'I.module_global_infos({"vdevice": ["cuda"]})',
        'I.module_global_infos({"vdevice": [I.vdevice(x)]})',
        'I.module_global_infos({"vdevice": [I.vdevice(3)]})',
        'I.module_global_infos({"vdevice": [I.vdevice("cuda", "0")]})',
    ],
)
def test_a_wrong_list_is_an_error_with_a_help(devices):
    with pytest.raises(DiagnosticError, match="= help: "):
        module('x: R.Tensor((2,), "float32")', "return x", devices=devices)


@pytest.mark.parametrize("devices", [LIST, ""])
def test_a_module_with_devices_prints_and_parses_back(devices):
    params = 'x: R.Tensor((2,), "float32", "llvm"), w: R.Tensor(ndim=2, vdevice="cuda:1")'
    lines = ["y = R.exp(x)", 'z = R.to_vdevice(y, "cuda:1")', "return (z, w, y)"]
    original = module(params, *lines, devices=devices)
    parsed = structir.parse(original.script())
    assert structir.structural_equal(parsed, original)
    assert parsed.script() == original.script()
    other = module(params.replace("llvm", "cuda"), *lines, devices=devices)
    assert not structir.structural_equal(original, other)


def test_the_dialect_of_tvm_lists_the_devices():
    params = 'x: R.Tensor((2,), "float32", "cuda:1")'
    text = tvm_text(module(params, "return x", devices=""))
    assert 'I.vdevice("cuda", 0, "global"), I.vdevice("cuda", 1, "global")' in text
    assert 'vdevice="cuda:1:global"' in text
    assert LIST in tvm_text(module(params, "return x"))


def test_a_device_has_one_text():
    info = TensorStructInfo((2,), "float32", vdevice="cuda:1:global")
    assert info == TensorStructInfo((2,), "float32", vdevice=VDevice("cuda", 1))
    assert info.vdevice.full_text == "cuda:1:global"
    assert str(info) == 'R.Tensor((2,), dtype="float32", vdevice="cuda:1")'
    assert structir.parse_struct_info(str(info)) == info


def test_update_moves_values_and_the_moves_to_their_device():
    params = 'x: R.Tensor((2,), "float32"), t: R.Tuple(R.Tensor((2,), "float32", "cuda"))'
    lines = ('y = R.to_vdevice(x, "cuda")', "z = R.exp(y)", "return (z, t)")
    text = "I.module_global_infos({'vdevice': [I.vdevice('cuda'), I.vdevice('llvm')]})"
    original = module(params, *lines, devices=text)
    expected = [part.replace('"cuda"', '"llvm"') for part in (params, *lines)]
    updated = passes.UpdateVDevice(old="cuda", new="llvm")(original)
    assert structir.structural_equal(updated, module(*expected, devices=text))
    assert passes.UpdateVDevice(old="metal", new="llvm")(original) is original


def test_inference_of_shapes_keeps_vdevices():
    params = (
        'x: R.Tensor(("n", 4), "float32", "cuda"), s: R.Tensor(("*s", "_"), "float32", "cuda"), '
        'w: R.Tensor("float32", ndim=2, vdevice="cuda")'
    )
    lines = ["y = R.matmul(x, w)", "t = R.exp(s)", "return (t, y, R.reshape(y, (-1,)))"]
    original = module(params, *lines, devices="")
    inferred = structir.infer(original)
    assert not structir.structural_equal(inferred, original)
    for function in (original["main"], inferred["main"]):
        values = [*function.params, *[b.var for b in function.bindings()]]
        assert {str(d) for v in values for d in vdevices_of(v.struct_info)} == {"cuda"}
        assert {str(info.vdevice) for info in function.ret_struct_info.fields} == {"cuda"}


def test_a_cotangent_is_on_the_device_of_its_operand():
    params = 'x: R.Tensor((2,), "float32", "cuda"), y: R.Tensor((2,), "float32", "llvm")'
    value = 'R.sum(R.multiply(R.exp(x), R.to_vdevice(y, "cuda")))'
    differentiated = passes.Gradient()(module(params, f"return {value}", devices=""))
    infos = differentiated["main_adjoint"].ret_struct_info.fields[1].fields
    assert [str(info.vdevice) for info in infos] == ["cuda", "llvm"]
    ones, two = np.ones(2, "float32"), np.full(2, 2, "float32")
    _, (_, gradient) = structir.interpret(differentiated, "main_adjoint", ones * 0, two)
    np.testing.assert_array_equal(gradient, ones)


SCOPED = VDevice("metal", 0, "shared")
TEXT = "cuda:1"


def test_a_decorated_module_captures_devices_and_its_list_is_evaluated():
    @I.ir_module
    class Module:
        I.module_global_infos(
            {
                "vdevice": [
                    I.vdevice("llvm"),
                    I.vdevice({"kind": "cuda", "arch": "sm_80"}, 0, "global"),
                    I.vdevice("cuda", vdevice_id=1),
                    I.vdevice("metal", 0, "shared"),
                ]
            }
        )

        @R.function
        def main(
            x: R.Tensor((2,), "float32", TEXT),
            y: R.Tensor((2,), "float32", SCOPED),
            z: R.Tensor((2,), "float32", vdevice="vdevice:1"),
        ):
            return (R.to_vdevice(x, SCOPED), R.to_vdevice(y, TEXT), z)

    fields = Module["main"].ret_struct_info.fields
    assert [str(info.vdevice) for info in fields] == ["metal:0:shared", "cuda:1", "cuda"]
    assert structir.structural_equal(structir.parse(Module.script()), Module)
