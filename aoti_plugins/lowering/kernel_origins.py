"""What a program says of its kernels: the ops, modules and lines that each is from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath

from torch.fx import Node

from aoti_plugins.lowering.inductor.kernel_sites import KernelSite
from aoti_plugins.lowering.origins import Origins
from aoti_plugins.lowering.support import module_path, op_name, source_line
from aoti_plugins.payload import KernelRef

_FRAME = re.compile(r'File "(?P<path>[^"]*)", line (?P<line>\d+)(?P<rest>.*)', re.DOTALL)


def described(sites: Sequence[KernelSite], origins: Origins) -> tuple[KernelRef, ...]:
    """Describe kernels for the payload.

    Of the paths of files only the last two parts are kept: a program is the same wherever the
    model's code lies, and says nothing of who made it.
    """
    return tuple(_kernel_ref(site, _nodes(site, origins)) for site in sites)


def _kernel_ref(site: KernelSite, nodes: Sequence[Node]) -> KernelRef:
    return KernelRef(
        name=site.name,
        ops=_unique(map(op_name, nodes)),
        modules=_unique(map(module_path, nodes)),
        lines=_unique(short_line(source_line(node)) for node in nodes),
        nbytes_read=site.nbytes_read,
        nbytes_written=site.nbytes_written,
        flops=site.flops,
    )


def debug_handles(sites: Sequence[KernelSite], origins: Origins) -> Mapping[str, tuple[int, ...]]:
    """ExecuTorch's ``debug_handle_map``: the debug handles of ops by the kernel's name.

    And of the op whose result it is by the name of what a kernel writes.
    """
    found = {site.name: _handles(_nodes(site, origins)) for site in sites}
    for site in sites:
        found.update(
            (one.name, _handles(origins.of(one.node, site.layers_on))) for one in site.outputs
        )
    return {name: handles for name, handles in found.items() if handles}


def _handles(nodes: Iterable[Node]) -> tuple[int, ...]:
    handles = {handle for node in nodes if isinstance(handle := node.meta.get("debug_handle"), int)}
    return tuple(sorted(handles))


def short_line(line: str) -> str:
    """A source line of ``source_line`` as ``folder/file.py:12 in forward: code``."""
    frame = _FRAME.match(line)
    if frame is None:
        return line
    path = "/".join(PurePath(frame["path"]).parts[-2:])
    return f"{path}:{frame['line']}{frame['rest'].replace(', in ', ' in ', 1)}"


def _nodes(site: KernelSite, origins: Origins) -> tuple[Node, ...]:
    """The partition's nodes; Inductor's own where it does not say what they are from."""
    known = {node for one in site.nodes for node in origins.of(one, site.layers_on)}
    ops = {one.name: one for one in site.nodes if one.op == "call_function"}
    return origins.in_order(known) or tuple(node for _, node in sorted(ops.items()))


def _unique(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text.replace("\0", " ") for text in texts if text))
