"""Metal text to C++: tokens, literals, attributes, kernels and their arguments."""

from __future__ import annotations

import pytest
from compile import CompileError, compile_metal, to_host
from metal_kernels import find_kernels, waiting_functions
from metal_tokens import MetalSyntaxError, join, tokenize
from translate import float_literal, needs_preprocessor, translate


def kernels(text: str) -> dict[str, list[tuple[str, int]]]:
    return {
        k.exported_name: [(a.kind, a.index) for a in k.arguments]
        for k in find_kernels(tokenize(text))
    }


def test_tokens_are_the_text() -> None:
    text = '#define A(x) \\\n  x + 1.0 // c\nint a = 0x1p-3f; /* "b\n */ char c = \'"\';\n"s\\"t"'
    assert join(tokenize(text)) == text


@pytest.mark.parametrize(
    ("metal", "host"),
    [
        ("1.0", "1.0f"),
        (".5", ".5f"),
        ("1.", "1.f"),
        ("1e-5", "1e-5f"),
        ("1.5E+3", "1.5E+3f"),
        ("0x1.8p3", "0x1.8p3f"),
        ("1.0f", "1.0f"),
        ("1.0h", "1.0f16"),
        ("2h", "half(2)"),
        ("1.5bf", "bfloat(1.5f)"),
        ("1", "1"),
        ("0xE", "0xE"),
        ("0xBF", "0xBF"),
        ("7LL", "7LL"),
        ("3u", "3u"),
    ],
)
def test_literals_are_float(metal: str, host: str) -> None:
    assert float_literal(metal) == host


def test_literals_in_macros_are_float_too() -> None:
    assert "#define HALF(x) ((x) * 0.5f)" in translate("#define HALF(x) ((x) * 0.5)\n")


def test_lines_stay_where_they_are() -> None:
    text = (
        "kernel void f(device float* a [[\nbuffer(0)]]) {\n"
        "  threadgroup float b[2],\n    c;\n  b[0] = c;\n}\nint last;\n"
    )
    lines = translate(text).splitlines()
    assert lines[lines.index('#line 1 "program_source"') + 1 :][6] == "int last;"


def test_indices_that_are_not_given_are_the_next() -> None:
    text = """
    kernel void f(device float* a, constant int& n [[buffer(1)]], const device float* b,
                  threadgroup float* m [[threadgroup(0)]], uint2 at [[thread_position_in_grid]]) {}
    """
    assert kernels(text) == {
        "f": [("device", 0), ("reference", 1), ("device", 2), ("threadgroup", 0),
              ("thread_position_in_grid", 0)]
    }  # fmt: skip


def test_templates_namespaces_and_attributes() -> None:
    text = """
    namespace a { namespace b {
    template <typename T, int N = (3 > 2)>
    [[max_total_threads_per_threadgroup(8 * N)]]
    kernel void f(constant T* x, device T* y) {}
    [[kernel]] void g(device int* x [[buffer(3)]]) {}
    }}
    template [[host_name("f_float")]] kernel void a::b::f<float, 4>(constant float*, device float*);
    template [[host_name("f_half")]] kernel void a::b::f<half>(constant half*, device half*);
    """
    tokens = tokenize(text)
    found = {k.exported_name: k for k in find_kernels(tokens)}
    assert set(found) == {"f_float", "f_half", "g"}
    assert found["f_float"].name == "a::b::f<float,4>"
    assert found["f_float"].max_threads == "8*N"
    assert found["g"].name == "::a::b::g"
    assert "template [[" not in join(tokens)


def test_variables_but_not_pointers_are_placed_in_threadgroup_memory() -> None:
    text = translate(
        "void helper(threadgroup float* p) {}\n"
        "kernel void f(device float* a) {\n"
        "  threadgroup metal::array<float, 3> x[4], y;\n"
        "  threadgroup float* p = &x[0][0];\n  threadgroup float& q = *p;\n}\n"
    )
    assert text.count("GroupVariable") == 2
    assert "auto& x = metal_host" in text
    assert "auto& y = metal_host" in text
    assert "threadgroup float* p = &x[0][0];" in text


def test_functions_that_wait_are_found_through_calls_and_macros() -> None:
    text = """
    #define SYNC() threadgroup_barrier(mem_flags::mem_threadgroup)
    template <typename T> T inner(T x) { return simd_sum(x); }
    struct S { float member(float x) { return inner(x); } };
    float plain(float x) { return x; }
    kernel void a(device float* x) { S s; x[0] = s.member(1); }
    kernel void b(device float* x) { SYNC(); }
    kernel void c(device float* x) { x[0] = plain(2); }
    """
    assert waiting_functions(tokenize(text)) == {"SYNC", "inner", "member", "a", "b"}


def test_macros_that_hide_kernels_are_expanded() -> None:
    text = """
    #include <metal_stdlib>
    template <typename T> kernel void f(device T* x, uint i [[thread_position_in_grid]]) {}
    #define MAKE(T) template [[host_name("f_" #T)]] kernel void f<T>(device T*, uint)
    MAKE(float); MAKE(half);
    """
    assert needs_preprocessor(text)
    assert '{"f_float",' in to_host(text)
    assert '{"f_half",' in to_host(text)
    assert not needs_preprocessor("#define A 1\nkernel void f(device int* x) {}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kernel void f(device float* a) {", "'{' is never closed"),
        ("kernel void f(device float* a)) {}", "closes nothing|without a body"),
        ("kernel int f(device float* a) {}", "does not return void"),
        ("kernel void f(uint i) {}", "'i' of a kernel has attributes that are not known: none"),
        ("kernel void f(uint i [[nonsense]]) {}", "not known: nonsense"),
        ("kernel void f(device int* a [[buffer(N)]]) {}", "is no number"),
        (
            'template [[host_name("x")]] kernel void f<int>(device int*);',
            "no template of",
        ),
        ("kernel void f(device int* a) { threadgroup int b = 1; }", "'b' has an initializer"),
    ],
)
def test_what_is_not_understood_is_said_with_its_line(text: str, message: str) -> None:
    with pytest.raises(MetalSyntaxError, match=rf"program_source:2: error: .*({message})"):
        translate("\n" + text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kernel void f(device float* a) { a[0] = b; }", "undeclared identifier 'b'"),
        ("kernel void f(device double* a) {}", "double_is_not_a_type_of_metal"),
        ("#include <vector>\n", "'vector' is no header of Metal"),
        ("kernel void f(constant float* a) { a[0] = 1; }", "const"),
        ("kernel void f(device long* a) { a[0] = metal::simd_sum(a[0]); }", "64-bit integer"),
    ],
)
def test_what_does_not_compile_is_said_with_its_text(
    text: str, message: str, tmp_path: object
) -> None:
    with pytest.raises(CompileError, match=message):
        compile_metal(text, tmp_path / "out.so")  # type: ignore[operator]
