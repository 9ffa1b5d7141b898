"""What is inside a wheel besides our own code, and the document that says so.

The document is CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json/), which PEP 770 puts into a
wheel's ``.dist-info/sboms/``. It has neither a random number nor the time of the build, so that
equal contents give equal bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Component:
    """Code of others that is in our libraries.

    Args:
        name: as its project calls it.
        version: what was built with.
        licence: SPDX expression.
        purl: where it is from, as a package URL.
        how: how it gets into our libraries.
        text: file with the terms that have to go with it; None where they do not ask for that.
    """

    name: str
    version: str
    licence: str
    purl: str
    how: str
    text: Path | None = None

    @property
    def reference(self) -> str:
        """What the document calls it."""
        return f"{self.name}@{self.version}"

    def entry(self) -> dict[str, Any]:
        """What the document says of it."""
        return {
            "bom-ref": self.reference,
            "type": "library",
            "name": self.name,
            "version": self.version,
            "description": self.how,
            "licenses": [{"expression": self.licence}],
            "purl": self.purl,
        }


def licence_expression(own: str, components: list[Component]) -> str:
    """The SPDX expression of a wheel: its own licence, and those whose terms go with it."""
    asked = {one.licence for one in components if one.text is not None}
    return " AND ".join([own, *sorted(asked - {own})])


def document(name: str, version: str, licence: str, components: list[Component]) -> str:
    """The bill of materials of a wheel, as JSON.

    Args:
        name: the package.
        version: its version.
        licence: of its own code.
        components: what else is inside.
    """
    ordered = sorted(components, key=lambda one: one.reference)
    package = f"{name}@{version}"
    contents = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "bom-ref": package,
                "type": "library",
                "name": name,
                "version": version,
                "licenses": [{"expression": licence}],
                "purl": f"pkg:pypi/{package}",
            }
        },
        "components": [one.entry() for one in ordered],
        "dependencies": [{"ref": package, "dependsOn": [one.reference for one in ordered]}],
    }
    return json.dumps(contents, indent=2) + "\n"
