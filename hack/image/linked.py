"""The C and C++ that is inside wheels which do not list it themselves, read by hand.

A compiled module of the image is in one of three tables: `LINKED` (somebody else's code is in it), `OWN` (nobody else's
is), `TOLD` (its wheel brings an SBOM).  A new one belongs to none, and tests/image/test_linked.py is red until somebody
has looked.  Where to look: the names of source files among the symbols of the module (`readelf --symbols`, type FILE),
its strings, and the source distribution of the wheel.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution
from typing import Final


@dataclass(frozen=True, slots=True)
class Linked:
    """A library inside a compiled module.

    Attributes:
        name: what it is called.
        version: its version; empty where neither the module nor the sources of the wheel tell it.
        licence: its terms, as SPDX.
        home: where its sources are.
        read_in: the wheel that all of this was read in, as the lock spells it.
    """

    name: str
    version: str
    licence: str
    home: str
    read_in: str


_MSGSPEC: Final = "msgspec==0.22.0"
LINKED: Final = {
    "aiohttp/_http_parser": (  # LLHTTP_VERSION_* in vendor/llhttp of its sources
        Linked("llhttp", "9.4.2", "MIT", "https://github.com/nodejs/llhttp", "aiohttp==3.14.5"),
    ),
    "msgspec/_core": (  # changed copies, of no release: ryu.h and atof.h
        Linked("ryu", "", "Apache-2.0 OR BSL-1.0", "https://github.com/ulfjack/ryu", _MSGSPEC),
        Linked("wuffs", "", "Apache-2.0", "https://github.com/google/wuffs", _MSGSPEC),
    ),
    "uvloop/loop": (  # libuv_get_version(); LICENSE and LICENSE-extra (tree.h, inet_pton) in vendor/libuv
        Linked(
            "libuv",
            "1.52.1",
            "MIT AND BSD-2-Clause AND ISC",
            "https://github.com/libuv/libuv",
            "uvloop==0.23.0",
        ),
    ),
    "yaml/_yaml": (  # get_version_string()
        Linked("libyaml", "0.2.5", "MIT", "https://github.com/yaml/libyaml", "pyyaml==6.0.3"),
    ),
}
"""What is inside which module; a module is the path of its file, of whose name only what is before the first dot."""
OWN: Final = frozenset(
    {
        "aiohttp/_http_writer",
        "aiohttp/_websocket/mask",
        "aiohttp/_websocket/reader_c",
        "frozenlist/_frozenlist",
        "markupsafe/_speedups",
        "multidict/_multidict",
        "multidict/_testcapi",
        "propcache/_helpers_c",
        "yarl/_quoting_c",
    }
)
"""Modules of their project's own code, and of what Cython makes of it."""
TOLD: Final = frozenset({"pydantic_core/_pydantic_core"})
"""Modules of wheels that bring an SBOM of what is built into them."""


def inside() -> tuple[Linked, ...]:
    """Every library of `LINKED`."""
    return tuple(library for libraries in LINKED.values() for library in libraries)


def compiled(dist: Distribution) -> Iterator[str]:
    """The compiled modules and the libraries of an installed package."""
    for path in dist.files or ():
        if ".so" in path.suffixes:
            yield str(path.parent / path.name.partition(".")[0])
