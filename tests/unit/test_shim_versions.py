"""Later versions of C shims (``_v2``) that PyTorch declares: each is answered, or never called.

Inductor calls the latest version. When this fails with a new PyTorch, the runtime has
to export the new name, or it gets its line in ``NOT_CALLED``.
"""

from __future__ import annotations

import re
from pathlib import Path

import torch

from aoti_plugins import native_files
from aoti_plugins.lowering.runtime_shims import available
from aoti_plugins.plugin_system.devices import delegates

NOT_CALLED = {
    "aoti_torch__scaled_dot_product_flash_attention_v2": "deprecated: for models of older versions",
    "aoti_torch__scaled_mm_v2": "deprecated: for models of older versions",
    "aoti_torch_cuda__flash_attention_forward_v2": "with dropout, which inference has not",
    "aoti_torch_cuda__flash_attention_forward_no_dropout_inplace_v2": "no program has the op",
}

_VERSIONED = re.compile(r"\baoti_torch_\w+_v[2-9]\d*\b")


def declared() -> set[str]:
    """Names in the headers of the installed PyTorch, for the devices that we know."""
    folder = Path(torch.__file__).parent / "include" / "torch" / "csrc" / "inductor"
    texts = (header.read_text() for header in folder.rglob("*.h"))
    return {n for text in texts for n in _VERSIONED.findall(text) if "_xpu_" not in n}


def test_every_later_version_is_answered() -> None:
    ours = [available(device, {}) for device in delegates().values()]
    found = declared()
    assert "aoti_torch_create_tensor_from_blob_v2" in found
    unanswered = {name for name in found if not any(name in shims for shims in ours)}
    assert unanswered == found & set(NOT_CALLED)


def test_later_versions_have_our_linker_names() -> None:
    """A blob asks our runtime, and never libtorch, also for one that nobody provides."""
    header = (native_files.include_dir() / "aoti_plugins" / "shim_link_names.h").read_text()
    assert declared() <= set(re.findall(r"redefine_extname (\w+) ", header))
