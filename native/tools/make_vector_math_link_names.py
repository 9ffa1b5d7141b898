"""Write include/aoti_plugins/vector_math_link_names.h.

The functions are those that PyTorch's vector headers call, in the widths of the supported
instruction sets; must match src/cpu/math/vector_math.inc.
"""

from __future__ import annotations

from pathlib import Path

HEADER = Path(__file__).parent.parent / "include" / "aoti_plugins" / "vector_math_link_names.h"
WIDTHS = ("f4", "d2", "f8", "d4", "f16", "d8")
FUNCTIONS = {
    "_u10": (
        "acos acosh asin asinh atan atan2 atanh cos cosh erf exp exp2 expm1 lgamma log log10 log1p "
        "log2 pow sin sinh tan tanh"
    ),
    "_u15": "erfc",
    "_u35": "cos sin",
    "_u05": "hypot",
    "": "copysign fmod nextafter",
}
TEXT = """\
#pragma once

/// Gives the vector math functions that PyTorch's headers call linker names of our own: `aotip_`
/// and the name.
///
/// PyTorch means the Sleef library inside libtorch; a blob means this runtime's
/// src/cpu/math/vector_math.inc. Written by native/tools/make_vector_math_link_names.py.

"""


def main() -> None:
    """Write the header."""
    names = sorted(
        f"Sleef_{function}{width}{accuracy}"
        for accuracy, functions in FUNCTIONS.items()
        for function in functions.split()
        for width in WIDTHS
    )
    pragmas = "".join(f"#pragma redefine_extname {name} aotip_{name}\n" for name in names)
    HEADER.write_text(TEXT + pragmas)


if __name__ == "__main__":
    main()
