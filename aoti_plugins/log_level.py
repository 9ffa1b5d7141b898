"""``AOTI_PLUGINS_LOG``: one switch for every log.

The native libraries read the variable themselves: must match native/src/delegate/log_level.cpp.
"""

from __future__ import annotations

import logging
import os
import sys

LOG_VARIABLE = "AOTI_PLUGINS_LOG"
LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "off": logging.CRITICAL + 1,
}

_logger = logging.getLogger("aoti_plugins")


def chosen_level() -> int | None:
    """The level that the variable asks for; ``None`` where it says nothing, or nothing known."""
    return LEVELS.get(os.environ.get(LOG_VARIABLE, ""))


def log_to_stderr(level: int) -> None:
    """Show messages of our loggers on standard error, from a level on, and nowhere else.

    Called when the package is imported, where the variable is set, and by the command line. The
    loggers of other packages stay as they are.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    _logger.setLevel(level)
    _logger.propagate = False
    _logger.handlers[:] = [handler]


def follow_environment() -> None:
    """Do what the variable says; a value that means nothing is warned of."""
    level = chosen_level()
    if level is not None:
        log_to_stderr(level)
    elif text := os.environ.get(LOG_VARIABLE):
        known = ", ".join(LEVELS)
        _logger.warning("%s is %r, expected one of: %s", LOG_VARIABLE, text, known)
