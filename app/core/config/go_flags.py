"""Command lines as Go programs take them: `--flag=value`, `--flag value`, `-flag`, booleans with or without a value."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from app.core.config.names import nearest
from app.core.errors import Mistake, trimmed

_SHOWN = 60
_HELP = frozenset({"h", "help"})


@dataclass(slots=True)
class Arguments:
    """A command line, taken apart."""

    flags: dict[str, str] = field(default_factory=dict)
    """By name, without dashes; of a flag that is given twice, the last, as in Go."""
    rest: list[str] = field(default_factory=list)
    """What is no flag."""
    help: bool = False
    mistakes: list[Mistake] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags of a command by name, and whether each is a boolean, which takes its value by `=` only."""

    ours: Mapping[str, bool]
    accepted: Mapping[str, bool] = field(default_factory=dict)
    """Those of another program: understood, and never recommended."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names of ours."""

    def boolean(self, name: str) -> bool | None:
        """Whether this flag is a boolean; None where it is unknown."""
        return self.ours.get(name, self.accepted.get(name))


def take_apart(words: Sequence[str], known: Flags) -> Arguments:
    """Sorts the arguments after the command; what is wrong with them is among its result."""
    found = Arguments()
    queue = list(reversed(words))
    while queue:
        word = queue.pop()
        if word == "--":
            found.rest += reversed(queue)
            break
        if not word.startswith("-") or word == "-":
            found.rest.append(word)
        else:
            _take_flag(word, queue, known, found)
    return found


def _take_flag(word: str, queue: list[str], known: Flags, found: Arguments) -> None:
    written, equals, value = word.removeprefix("-").removeprefix("-").partition("=")
    name = known.aliases.get(written, written)
    if name in _HELP and not equals:
        found.help = True
    elif known.boolean(name) is None:
        found.mistakes.append(_unknown(word.partition("=")[0], known.ours))
        if not equals and queue and not queue[-1].startswith("-"):
            queue.pop()  # its value, most likely: one mistake is enough
    elif equals:
        found.flags[name] = value
    elif known.boolean(name):
        found.flags[name] = "true"
    elif queue and not queue[-1].startswith("--"):
        found.flags[name] = queue.pop()
    else:
        found.mistakes.append(_mistake(f"--{name}", "needs a value"))


def _mistake(path: str, message: str) -> Mistake:
    return Mistake(None, trimmed(path, _SHOWN), message)


def _unknown(flag: str, known: Iterable[str]) -> Mistake:
    names = list(known)
    hint = f"; the nearest is --{nearest(flag.lstrip('-'), names)}" if names else ""
    return _mistake(flag, f"unknown flag{hint}")
