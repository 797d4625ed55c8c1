"""What is in the root of an image, as a CycloneDX 1.6 document: `python -m hack.image.sbom ROOT FILE`.

It reads the root itself, not what was meant to be there: the Debian packages of /var/lib/dpkg/status.d, the Python
packages of /usr/local, and what is built into those: by the SBOMs that they bring (PEP 770), and where they bring none
by hack/image/linked.py.  Time, serial number and order follow from the content and SOURCE_DATE_EPOCH; the document is
checked against the schema before it is written.
"""

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email import message_from_string
from email.message import Message
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from hack.image.licences import DEBIAN, licence_of, normal
from hack.image.linked import LINKED, Linked, compiled

OURS: Final = "dependency-watchdog"
_SILENT: Final = {"openssl": "Apache-2.0"}
"""The terms of what a wheel lists without them."""


def _component(
    name: str, version: str, licence: str, purl: PackageURL, kind: ComponentType
) -> Component:
    terms = [LicenseFactory().make_from_string(licence)] if licence else []
    return Component(
        name=name, version=version, licenses=terms, purl=purl, bom_ref=str(purl), type=kind
    )


class Found:
    """The components of one root, and which needs which."""

    def __init__(self, root: Path) -> None:
        self._debian = list(_debian(root))
        site = next(root.glob("usr/local/lib/python3.*/site-packages"))
        self._python = sorted(distributions(path=[str(site)]), key=lambda d: normal(d.name))
        self._release = dict(
            re.findall(
                r'^(\w+)="?([^"\n]*)', (root / "usr/lib/os-release").read_text(), re.MULTILINE
            )
        )

    def bom(self) -> Bom:
        """All of it."""
        libraries = {each["Package"]: self._debian_component(each) for each in self._debian}
        packages = {normal(each.name): _python_component(each) for each in self._python}
        made = Bom(components=[*libraries.values(), *packages.values()])
        made.metadata.component = packages[OURS]
        made.components.discard(packages[OURS])
        for each in self._debian:
            wanted = (libraries.get(name) for name in _debian_needs(each))
            made.register_dependency(libraries[each["Package"]], filter(None, wanted))
        interpreter = [each for name, each in libraries.items() if name.startswith("python3")]
        for dist in self._python:
            needs = filter(None, (packages.get(name) for name in _python_needs(dist)))
            more: list[Component] = interpreter if dist.name == OURS else _built_in(dist)
            made.components.update(more)
            made.register_dependency(packages[normal(dist.name)], [*needs, *more])
        return made

    def _debian_component(self, control: Message) -> Component:
        name, version = str(control["Package"]), str(control["Version"])
        about = {"arch": control["Architecture"], "distro": f"debian-{self._release['VERSION_ID']}"}
        if source := control.get("Source"):
            about["upstream"] = source.split()[0]
        purl = PackageURL("deb", "debian", name, version, about)
        return _component(name, version, DEBIAN.get(name, ""), purl, ComponentType.LIBRARY)


def _debian(root: Path) -> Iterator[Message]:
    for path in sorted((root / "var/lib/dpkg/status.d").iterdir()):
        yield message_from_string(path.read_text())


def _debian_needs(control: Message) -> list[str]:
    fields = f"{control.get('Depends', '')},{control.get('Pre-Depends', '')}"
    return re.findall(r"(?:^|[,|])\s*([a-z0-9][a-z0-9+.-]+)", fields)


def _python_component(dist: Distribution) -> Component:
    kind = ComponentType.APPLICATION if dist.name == OURS else ComponentType.LIBRARY
    purl = PackageURL("pypi", None, normal(dist.name), dist.version)
    return _component(dist.name, dist.version, licence_of(dist.metadata), purl, kind)


def _built_in(dist: Distribution) -> list[Component]:
    """What its wheel was linked from, without what only built it."""
    found = []
    for path in dist.files or ():
        if path.parent.name == "sboms" and path.parent.parent.suffix == ".dist-info":
            told = json.loads(path.read_text())["components"]
            found += [_told(each) for each in told if each.get("scope") != "excluded"]
    silent = (each for module in compiled(dist) for each in LINKED.get(module, ()))
    return [*found, *map(_read, silent)]


def _read(library: Linked) -> Component:
    purl = PackageURL("generic", None, library.name, library.version or None)
    kind = ComponentType.LIBRARY
    made = _component(library.name, library.version, library.licence, purl, kind)
    if not library.version:
        made.version = None
        made.description = f"in {library.read_in}, which does not tell its version"
    return made


def _told(component: Mapping[str, Any]) -> Component:
    purl = PackageURL.from_string(component["purl"])._replace(qualifiers={})
    licence = next((_terms(each) for each in component.get("licenses", ())), "")
    name, version = component["name"], component["version"]
    return _component(name, version, licence or _SILENT.get(name, ""), purl, ComponentType.LIBRARY)


def _terms(choice: Mapping[str, Any]) -> str:
    return str(choice.get("expression") or choice["license"].get("id", ""))


def _python_needs(dist: Distribution) -> Iterator[str]:
    """What it requires without an extra; what another platform would need is not installed."""
    for line in dist.requires or ():
        if "extra ==" not in line and (found := re.match(r"[A-Za-z0-9._-]+", line)):
            yield normal(found[0])


def document(root: Path, epoch: int) -> str:
    """The document of what is in `root`, made at `epoch` (seconds).

    Raises:
        ValueError: it does not keep to the schema.
    """
    made = Found(root).bom()
    made.metadata.timestamp = datetime.fromtimestamp(epoch, UTC)
    purls = "\n".join(sorted(str(each.purl) for each in made.components))
    made.serial_number = uuid5(NAMESPACE_URL, f"{epoch}\n{purls}")
    text = JsonV1Dot6(made).output_as_string(indent=1)
    mistakes = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if mistakes is not None:
        raise ValueError(f"the SBOM is not valid: {mistakes}")
    return text + "\n"


if __name__ == "__main__":
    target = Path(sys.argv[2])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(document(Path(sys.argv[1]), int(os.environ["SOURCE_DATE_EPOCH"])))
