"""The licences of everything in the image, and which are allowed; `python -m hack.image.licences` prints the page.

Python packages say their own; where one says it in words of its own, `_SPELLINGS` translates.  For Debian packages the
files `/usr/share/doc/*/copyright` were read, which also cover sources that no file of the image is made of.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from hack.image import linked

ROOT: Final = Path(__file__).resolve().parent.parent.parent
LOCK: Final = ROOT / "requirements" / "run.txt"

PERMISSIVE: Final = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "ISC",
        "MIT",
        "MIT-0",
        "MPL-2.0",  # binds changed files only, and none is changed
        "PSF-2.0",
        "Unicode-3.0",
        "Unicode-DFS-2016",
        "Unlicense",
        "Zlib",
        "bzip2-1.0.6",
    }
)
"""What may be imported into a program under Apache-2.0 and given on with it."""
OF_THE_SYSTEM: Final = PERMISSIVE | {
    "GPL-2.0-or-later",  # base-files: a few lines that name the distribution
    "GPL-3.0-or-later WITH GCC-exception-3.1",
    "LGPL-2.1-or-later",  # linked dynamically, as Debian built it
    "LicenseRef-public-domain",
}
"""What the libraries below the program may come under."""


@dataclass(frozen=True, slots=True)
class Licensed:
    """One package: what it is called, its version where the lock has one, its terms as SPDX, and where it is from."""

    name: str
    version: str
    licence: str
    origin: str


_PYTHON: Final = "PSF-2.0"
_GCC: Final = "GPL-3.0-or-later WITH GCC-exception-3.1"
DEBIAN: Final = {
    "base-files": "GPL-2.0-or-later",
    "ca-certificates": "MPL-2.0",  # the certificates; the scripts, under the GPL, are left out
    "gcc-12-base": _GCC,
    "libbz2-1.0": "bzip2-1.0.6",
    "libc6": "LGPL-2.1-or-later",
    "libcrypt1": "LGPL-2.1-or-later",
    "libexpat1": "MIT",
    "libffi8": "MIT",
    "libgcc-s1": _GCC,
    "liblzma5": "LicenseRef-public-domain",
    "libpython3.11-minimal": _PYTHON,
    "libpython3.11-stdlib": _PYTHON,
    "libssl3": "Apache-2.0",
    "libstdc++6": _GCC,
    "libuuid1": "BSD-3-Clause",
    "media-types": "LicenseRef-public-domain",
    "python3.11-minimal": _PYTHON,
    "zlib1g": "Zlib",
}
"""The Debian packages of the image, with the terms of the files that are in it."""

_SPELLINGS: Final = {
    "Apache 2.0": "Apache-2.0",
    "License :: OSI Approved :: MIT License": "MIT",
    "The MIT License (MIT)": "MIT",
}
_HOMES: Final = ("source", "source code", "repository", "github", "code", "homepage")
_HOMES_BY_HAND: Final = {"kubernetes-asyncio": "https://github.com/tomplus/kubernetes_asyncio"}
_READ_BY_HAND: Final = {"jinja2": "BSD-3-Clause", "uvloop": "MIT OR Apache-2.0"}
"""Packages that name more than one licence without saying whether it is `and` or `or`, or do not say which BSD one."""


def normal(name: str) -> str:
    """The name of a Python package as the index compares them (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def licence_of(metadata: Message) -> str:
    """The terms of a Python package as an SPDX expression; empty where it does not say."""
    if (known := _READ_BY_HAND.get(normal(str(metadata["Name"])))) is not None:
        return known
    for field in ("License-Expression", "License"):
        if said := metadata.get(field, ""):
            title = said.splitlines()[0].strip()  # some have all of the text there
            return _SPELLINGS.get(title, title)
    said_so = {_SPELLINGS.get(each, "") for each in metadata.get_all("Classifier", [])} - {""}
    return said_so.pop() if len(said_so) == 1 else ""


def home(metadata: Message) -> str:
    """Where its sources are, by what it says itself; else where the project lives."""
    urls = {}
    for each in metadata.get_all("Project-URL", []):
        name, _, url = each.partition(",")
        urls[name.strip().lower()] = url.strip()
    wanted = (urls.get(name) for name in _HOMES)
    return str(
        next(
            filter(None, wanted),
            metadata.get("Home-page") or _HOMES_BY_HAND.get(normal(str(metadata["Name"])), ""),
        )
    )


def allowed(expression: str, licences: frozenset[str]) -> bool:
    """Whether we may go by `licences`: one of what is joined by OR, each of what is joined by AND."""
    return all(
        any(choice.strip("()") in licences for choice in part.split(" OR "))
        for part in expression.split(" AND ")
    )


def locked() -> Iterator[tuple[str, str]]:
    """Name and version of each Python package of the image."""
    for line in LOCK.read_text().splitlines():
        if found := re.match(r"([A-Za-z0-9._-]+)==(\S+)", line):
            yield found[1], found[2]


def python_packages() -> list[Licensed]:
    """The Python packages of the lock, from what is installed here.

    Raises:
        LookupError: one is not installed in the locked version.
    """
    found = []
    for name, version in locked():
        try:
            installed = distribution(name)
        except PackageNotFoundError as error:
            raise LookupError(f"{name} is not installed") from error
        if installed.version != version:
            raise LookupError(f"{name} {version} is locked, {installed.version} is installed")
        licence = licence_of(installed.metadata)  # type: ignore[arg-type]  # it is a Message
        found.append(Licensed(name, version, licence, home(installed.metadata)))  # type: ignore[arg-type]
    return found


def debian_packages() -> list[Licensed]:
    """The Debian packages; which version, the SBOM of an image says."""
    return [Licensed(name, "", licence, "Debian") for name, licence in DEBIAN.items()]


_HEAD: Final = """# Licences

The watchdog is under [Apache-2.0](../LICENSE). This is what its image has beside it, generated by `make licences`.
A test allows no licence that is not on the list in [hack/image/licences.py](../hack/image/licences.py).

## Python packages

Imported, unchanged. Each has its licence in its `*.dist-info` folder in the image. The SBOM of an image also lists
what is built into a wheel: what the wheel says itself (Rust crates), and the next table.

| package | version | licence | from |
|---|---|---|---|
"""
_LINKED_HEAD: Final = """
## C and C++ inside wheels that do not list it

Read by hand out of compiled modules and the sources of the wheels: [hack/image/linked.py](../hack/image/linked.py).
A test refuses a compiled module that nobody looked at, and a wheel that is not the one that was read.

| what | version | licence | in | from |
|---|---|---|---|---|
"""
_DEBIAN_HEAD: Final = """
## Debian packages

As Debian 12 has built them; their sources are there. The SBOM of an image has their versions, the image itself their
terms: `/usr/share/doc/*/copyright` and `/usr/share/common-licenses`.

| package | licence of its files in the image |
|---|---|
"""


def page() -> str:
    """The page docs/licences.md."""
    python = [
        f"| {p.name} | {p.version} | {p.licence} | <{p.origin}> |\n" for p in python_packages()
    ]
    inside = [
        f"| {each.name} | {each.version or 'not told'} | {each.licence} | {each.read_in} | <{each.home}> |\n"
        for each in linked.inside()
    ]
    debian = [f"| {p.name} | {p.licence} |\n" for p in debian_packages()]
    return "".join((_HEAD, *python, _LINKED_HEAD, *inside, _DEBIAN_HEAD, *debian))


if __name__ == "__main__":
    sys.stdout.write(page())
