"""Metal source is cut apart between declarations, and a kernel keeps what it uses."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from aoti_plugins.mps.inductor.conditions import (
    without_empty_conditions,
    without_known_conditions,
)
from aoti_plugins.mps.inductor.declarations import declarations
from aoti_plugins.mps.inductor.sources import small_source

HELPERS = Path(torch.__file__).parent / "include" / "c10" / "metal"
KERNEL = "kernel void generated_kernel(device float* out) {{ {} }}"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("template <typename T, enable_if_t<(1 < 2), bool> = true> inline T f(T x) { g(x); }", "f"),
        ("template <> inline half2 conj(half2 a) { return half2(a.x, -a.y); }", "conj"),
        ("struct alignas(1) Small { uchar x; };", "Small"),
        ("struct Max { static long identity() { return 1; } };", "Max"),
        ("template <> struct opmath_type<half> { using type = float; };", "opmath_type"),
        ("template <typename T> using simd_t = typename simd_type<T>::t;", "simd_t"),
        ("constant constexpr unsigned simdgroup_size = 32;", "simdgroup_size"),
        ("constexpr constant float table[2] = {1.0, 2.0};", "table"),
        ("float late(float);", "late"),
        ("#define TWICE(x) \\\n  ((x) + (x))  // and a comment", "TWICE"),
        ("enum class Kind : uchar { A, B };", "Kind"),
        ("float3 combine(float3 a, float3 b) { const char c = '}'; return a + b; }", "combine"),
    ],
)
def test_names_of_declarations(text: str, names: str) -> None:
    (found,) = declarations(text)
    assert found.names == {names}


@pytest.mark.parametrize(
    "text", ["using namespace metal;", "inline T operator+(T a, T b) { return a; }", "#include <a>"]
)
def test_what_always_stays(text: str) -> None:
    (found,) = declarations(text)
    assert found.names == frozenset()


def test_comments_go_and_strings_stay() -> None:
    (found,) = declarations('/* one */ int f() { // two }\n  return *"//{"; /* } */ }')
    assert found.text == 'int f() {\nreturn *"//{"; }'


def test_namespaces_are_open() -> None:
    texts = [one.text for one in declarations("namespace a { namespace b::c { int f(); } } int g;")]
    assert texts == ["namespace a {", "namespace b::c {", "int f();", "}", "}", "int g;"]


def test_conditions_that_hold_are_decided() -> None:
    source = """\
#if !defined(TORCH_STABLE_ONLY) && !defined(TORCH_TARGET_VERSION)
#ifdef __METAL__
int kept();
#else
#if OTHER
int dropped();
#endif
#endif
#if __METAL_VERSION__ >= 400
int newer();
#else
int older();
#endif
#include <metal_stdlib>
#include <metal_stdlib>
#endif"""
    texts = [one.text for one in without_known_conditions(declarations(source))]
    assert texts == [
        "int kept();",
        "#if __METAL_VERSION__ >= 400",
        "int newer();",
        "#else",
        "int older();",
        "#endif",
        "#include <metal_stdlib>",
    ]


def test_what_is_empty_goes() -> None:
    source = "namespace a { namespace b {\n#if A\n#elif B\n#else\n#endif\n} } int x;"
    assert [one.text for one in without_empty_conditions(declarations(source))] == ["int x;"]


def test_a_kernel_keeps_what_it_uses_and_all_forms_of_it() -> None:
    source = """
    #define USED 3
    #define UNUSED 4
    namespace c10 { namespace metal {
    int deep() { return USED; }
    float f(float x) { return deep(); }
    half f(half x) { return 1; }
    float g(float x) { return f(x); }
    } }
    """ + KERNEL.format("*out = c10::metal::f(1.0);")
    found = small_source(source)
    assert "half f(half x)" in found
    assert "deep()" in found
    assert "#define USED 3" in found
    for gone in ("UNUSED", " g("):
        assert gone not in found


def _source(headers: tuple[str, ...], body: str) -> str:
    from torch.utils._cpp_embed_headers import _embed_headers

    includes = [f"#include <c10/metal/{name}.h>" for name in headers]
    return _embed_headers(includes, [HELPERS.parent.parent], set()) + KERNEL.format(body)


def test_pytorchs_helpers_shrink() -> None:
    whole = _source(("utils", "special_math"), "out[0] = c10::metal::erf(out[1]);")
    found = small_source(whole)
    assert len(found) < len(whole) / 50
    assert "inline float erf(T x)" in found
    assert "//" not in found


@pytest.mark.parametrize(
    ("call", "combine"),
    [("sum", "AotipSum"), ("prod", "AotipProd"), ("max", "AotipMax"), ("min", "AotipMin")],
)
def test_wide_reductions_stop_at_the_last_active_lane(call: str, combine: str) -> None:
    body = f"threadgroup long data[32]; out[0] = c10::metal::threadgroup_{call}(data, 1L, 0, 40);"
    found = small_source(_source(("utils", "reduction_utils"), body))
    assert f"return aotip_combine_active_lanes(val, {combine}());" in found
    assert found.count("inline long aotip_combine_active_lanes") == 1
    assert not re.search(r"simd_shuffle_and_fill_down\(\s*as_type", found)


@pytest.mark.parametrize("seed", ["1", "2"])
def test_no_two_processes_differ(seed: str) -> None:
    whole = _source(("utils", "reduction_utils"), "out[0] = c10::metal::simd_sum(out[1]);")
    code = f"import sys; from {small_source.__module__} import small_source; "
    command = [sys.executable, "-c", code + "sys.stdout.write(small_source(sys.stdin.read()))"]
    environment = os.environ | {"PYTHONHASHSEED": seed}
    done = subprocess.run(
        command, input=whole, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == small_source(whole)
