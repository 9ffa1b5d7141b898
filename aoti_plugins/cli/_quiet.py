"""Keeps other packages' notes about themselves out of the commands' output."""

from __future__ import annotations

import logging
import warnings

_CHATTY = ("torchao", "torch.utils._pytree", "torch.export", "executorch", "root")


def quiet() -> None:
    """Silence what torch, torchao and executorch say while they are imported and used.

    Our own messages go through the logger ``aoti_plugins``, which this leaves alone. With
    ``--debug`` everything is shown.
    """
    if logging.getLogger("aoti_plugins").isEnabledFor(logging.DEBUG):
        return
    warnings.filterwarnings("ignore", module=r"(torch|executorch|copyreg|torchao)(\..*)?")
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.ERROR)
