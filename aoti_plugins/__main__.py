"""``python -m aoti_plugins`` is the command ``aoti-plugins``."""

from aoti_plugins.cli import main

main()
