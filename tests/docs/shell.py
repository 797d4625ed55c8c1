"""The lines of a page's blocks, as a shell takes them apart."""

import shlex
from collections.abc import Iterator
from typing import Final

_ENDS: Final = set("|&;<>()")


def words_of(line: str) -> Iterator[list[str]]:
    """The simple commands of a line of shell; nothing where it is no shell."""
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        tokens = list(lexer)
    except ValueError:
        return
    found: list[str] = []
    for token in [*tokens, ";"]:
        if token and set(token) <= _ENDS:
            yield found
            found = []
        else:
            found.append(token)
