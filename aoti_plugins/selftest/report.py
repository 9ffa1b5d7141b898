"""What a self-test found, as text to paste into an issue."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from aoti_plugins.selftest.bundle import Bundle
from aoti_plugins.selftest.run import Result

_PACKAGES = ("aoti-plugins", "executorch", "torch", "numpy")


def report_of(bundle: Bundle, results: Sequence[Result]) -> str:
    """Markdown: the machine, a line per case, and the errors whole."""
    failed = [one for one in results if one.error]
    passed = len(results) - len(failed)
    lines = [
        f"### aoti-plugins self-test: {bundle.device}, {passed} of {len(results)} passed",
        "",
        *(f"- {name}: {found}" for name, found in machine().items()),
        f"- made with: {_list(bundle.built_with.items())}",
        "",
        "| case | result | difference / allowed | load ms | first call ms | call ms |",
        "| --- | --- | --- | --- | --- | --- |",
        *map(_row, results),
    ]
    for one in failed:
        lines += ["", f"{one.name}:", "```", one.error, "```"]
    return "\n".join([*lines, ""])


def machine() -> dict[str, str]:
    """What the self-test runs on."""
    return {
        "system": f"{platform.platform()} {_first_line('sw_vers', '-productVersion')}".strip(),
        "processor": _first_line("sysctl", "-n", "machdep.cpu.brand_string")
        or platform.processor()
        or platform.machine(),
        "python": platform.python_version(),
        "packages": _list((name, _version(name)) for name in _PACKAGES),
    }


def _row(one: Result) -> str:
    times = " | ".join(f"{1e3 * seconds:.3g}" for seconds in (one.load_s, one.first_s, one.call_s))
    return f"| {one.name} | {'FAILED' if one.error else 'ok'} | {one.worst:.2g} | {times} |"


def _list(pairs: object) -> str:
    return ", ".join(f"{name} {found}" for name, found in pairs)  # type: ignore[attr-defined]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _first_line(*command: str) -> str:
    """What a command of macOS says; nothing where it is not there."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=30,
            check=False,
        )
    except OSError:
        return ""
    return done.stdout.partition("\n")[0].strip() if done.returncode == 0 else ""
