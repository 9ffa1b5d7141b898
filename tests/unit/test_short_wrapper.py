"""What Inductor says of constants and layouts, in fewer words."""

from __future__ import annotations

import pytest

from aoti_plugins.lowering.inductor.short_wrapper import shortened

CONSTANT = """\
    constants_info_[3].name = "a_weight";
    constants_info_[3].dtype = cached_torch_dtype_float32;
    constants_info_[3].device_type = cached_torch_device_type_cpu;
    constants_info_[3].offset = 0;
    constants_info_[3].data_size = 24;
    constants_info_[3].from_folded = false;
    constants_info_[3].type = static_cast<int32_t>(torch::aot_inductor::ConstantType::Parameter);
    constants_info_[3].shape = {2, 3};
    constants_info_[3].stride = {3, 1};
    constants_info_[3].layout = static_cast<int32_t>(cached_torch_layout_strided);
    constants_info_[3].original_fqn = "a.weight";
"""
OTHERS = """\
    constants_info_[3].device_type = cached_torch_device_type_cpu;
    ::aotip::describe_constant(constants_info_[3], "a_weight", "a.weight", "2,3,;3,1,", \
cached_torch_dtype_float32, 0, 24, false, \
static_cast<int32_t>(torch::aot_inductor::ConstantType::Parameter), \
static_cast<int32_t>(cached_torch_layout_strided));
"""


def test_a_constant_is_one_call() -> None:
    """What the call does not know stays a statement."""
    assert shortened(CONSTANT) == OTHERS


def test_constants_stay_apart() -> None:
    """Each has its own call, also where they follow each other; a number's lists are empty."""
    scalar = CONSTANT.replace("[3]", "[4]").replace("{2, 3}", "{}").replace("{3, 1}", "{}")
    found = shortened(f"before();\n{CONSTANT}{scalar}after();\n")
    calls = [line for line in found.splitlines() if "describe_constant" in line]
    assert [line.split("(")[1].split(",")[0] for line in calls] == [
        "constants_info_[3]",
        "constants_info_[4]",
    ]
    assert '"2,3,;3,1,"' in calls[0]
    assert '";"' in calls[1]
    assert found.startswith("before();\n")
    assert found.endswith("after();\n")


@pytest.mark.parametrize("field", ["dtype", "original_fqn", "shape", "layout"])
def test_what_lacks_a_field_stays(field: str) -> None:
    """As another version of PyTorch may write it."""
    text = "".join(line for line in CONSTANT.splitlines(True) if f".{field} =" not in line)
    assert shortened(text) == text


def test_what_goes_over_a_line_stays() -> None:
    """Nothing of it is lost."""
    text = f"{CONSTANT}    constants_info_[3].opaque_metadata = {{1,\n    2}};\n"
    assert shortened(text) == text


def test_layouts_are_text() -> None:
    """With the op's name and without one, with a dtype and without."""
    checks = (
        'if (asked()) { assert_size_stride(buf1, {1L, 32L}, {-2L, 1L}, "torch.ops.a.b"); }\n'
        "assert_size_stride(arg0_1, {}, {});\n"
        'assert_size_stride(buf2, {8L}, {1L}, "a", cached_torch_dtype_int8, "torch.int8");\n'
    )
    assert shortened(checks) == (
        'if (asked()) { ::aotip::check_layout(buf1, "1,32,;-2,1,", "torch.ops.a.b"); }\n'
        '::aotip::check_layout(arg0_1, ";", "a tensor");\n'
        '::aotip::check_typed_layout(buf2, "8,;1,", "a", cached_torch_dtype_int8, "torch.int8");\n'
    )


def test_sizes_that_a_call_knows_stay() -> None:
    """They are no text."""
    check = 'assert_size_stride(buf1, {s0, 32L}, {32L, 1L}, "input");\n'
    assert shortened(check) == check


def test_the_table_is_read_without_a_look_at_its_length() -> None:
    """Each constant has a place there."""
    assert shortened("auto& a = constants_->at(7);") == "auto& a = (*constants_)[7];"
