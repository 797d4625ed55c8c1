"""Which libraries an ELF file needs (its DT_NEEDED entries), and which sources it was linked from (its symbols)."""

import struct
from collections.abc import Iterator
from pathlib import Path

_DYNAMIC, _LOAD = 2, 1
_NEEDED, _STRTAB = 1, 5
_SYMTAB, _FILE = 2, 4


def needed(path: Path) -> set[str]:
    """The names of the libraries that a 64-bit little-endian ELF file is linked to; none for other files."""
    content = path.read_bytes()
    if content[:6] != b"\x7fELF\x02\x01":
        return set()
    segments = list(_segments(content))
    dynamic = next((s for s in segments if s[0] == _DYNAMIC), None)
    if dynamic is None:
        return set()
    _, offset, _, size = dynamic
    entries = list(struct.iter_unpack("<qQ", content[offset : offset + size]))
    address = next(value for tag, value in entries if tag == _STRTAB)
    strings = next(
        address - virtual + start
        for kind, start, virtual, length in segments
        if kind == _LOAD and virtual <= address < virtual + length
    )
    return {_text(content, strings + value) for tag, value in entries if tag == _NEEDED}


def _segments(content: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Type, offset, virtual address and size of each program header."""
    (start,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    for index in range(count):
        kind, _, offset, virtual, _, length = struct.unpack_from(
            "<IIQQQQ", content, start + index * size
        )
        yield kind, offset, virtual, length


def _text(content: bytes, start: int) -> str:
    return content[start : content.index(b"\0", start)].decode()


def sources(path: Path) -> set[str]:
    """The names of the source files that a 64-bit little-endian ELF file was linked from; none where it is stripped."""
    content = path.read_bytes()
    (start,) = struct.unpack_from("<Q", content, 40)
    size, count = struct.unpack_from("<HH", content, 58)
    sections = [
        struct.unpack_from("<IIQQQQI", content, start + index * size) for index in range(count)
    ]
    found = set()
    for _, kind, _, _, offset, length, link in sections:
        if kind == _SYMTAB:
            strings = sections[link][4]
            for name, info in struct.iter_unpack("<IB19x", content[offset : offset + length]):
                if info & 15 == _FILE and name:
                    found.add(_text(content, strings + name))
    return found - {"crtstuff.c"}  # the C library's, in everything
