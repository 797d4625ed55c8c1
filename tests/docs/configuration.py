"""Writes the tables of docs/configuration.md anew: `python -m tests.docs.configuration`.

Flags come from the settings of the commands, with their own texts. Of the keys of the two files the parsers are asked
(`asking`); why a key is there is the docstring below its field.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pydantic.fields import FieldInfo

from app.core.config.flags import CommandSettings, flag_name, shown_default, shown_type
from app.core.config.settings import (
    CheckConfigSettings,
    DemoSettings,
    ProberSettings,
    ServeSettings,
    WeederSettings,
)
from app.core.config.values import FileKind
from app.core.config.yaml_file import purposes_of
from app.core.docstrings import described
from app.core.model.endpoints import EndpointProbeSpec, Exec, Grpc, HttpGet, TcpSocket
from app.core.model.keys import MatchExpression, PodSelector, Ref
from app.core.model.policy import DependentPolicy, ProberPolicy, ScalePolicy
from app.core.model.weeding import PodSelectors, WeederPolicy
from tests.docs.asking import PROBE, ask
from tests.docs.pages import DOCS

PAGE: Final = DOCS / "configuration.md"
_DEPENDENTS: Final = "dependentResourceInfos"
_DEPENDENT: Final = f"{_DEPENDENTS}[]."
_SERVICE: Final = "servicesAndDependantSelectors.*."
Records = Iterable[tuple[str, type]]
"""The records of a table, each with what the page writes before its keys."""
FILES: Final[Mapping[FileKind, Records]] = {
    FileKind.PROBER: (
        ("", ProberPolicy),
        (_DEPENDENT, DependentPolicy),
        (f"{_DEPENDENT}ref.", Ref),
        ("….", ScalePolicy),
    ),
    FileKind.WEEDER: (
        ("", WeederPolicy),
        (_SERVICE, PodSelectors),
        ("….", PodSelector),
        ("….matchExpressions[].", MatchExpression),
    ),
}
ENDPOINT_PROBE: Final[Records] = (
    ("", EndpointProbeSpec),
    ("httpGet.", HttpGet),
    ("tcpSocket.", TcpSocket),
    ("grpc.", Grpc),
    ("exec.", Exec),
)
_ON_A_SEED: Final[dict[str, type[CommandSettings]]] = {
    "prober": ProberSettings,
    "weeder": WeederSettings,
    "serve": ServeSettings,
}
_ALONE: Final[dict[str, type[CommandSettings]]] = {
    "demo": DemoSettings,
    "check-config": CheckConfigSettings,
}


def regenerated(text: str) -> str:
    """The page with all of its tables made anew."""
    for name, lines in _tables():
        begin, end = (f"<!-- {each} {name} -->\n" for each in ("begin", "end"))
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        if rest:
            text = "".join((before, begin, *(f"{line}\n" for line in lines), end, after))
    return text


def _tables() -> Iterator[tuple[str, list[str]]]:
    for kind in FileKind:
        yield f"keys of the {kind} file", [*_keys(kind, FILES[kind])]
    yield "keys of an endpoint probe", [*_keys(FileKind.PROBER, ENDPOINT_PROBE, PROBE)]
    yield "flags on a seed", [*_shared_flags()]
    for command, model in _ALONE.items():
        yield f"flags of {command}", [*_flags(model)]


def _keys(kind: FileKind, records: Records, above: str = "") -> Iterator[str]:
    """A row for each key; `above` is the path of what they are keys of."""
    yield from _head("key", "type", "default", "valid", "why")
    for before, record in records:
        told = purposes_of(record)
        # The dependents are followed by what each of them has.
        for key in sorted(told, key=lambda each: each == _DEPENDENTS):
            row = before + key
            answer = ask(kind, above + row)
            yield _row(f"`{row}`", answer.type, answer.default, answer.valid, _phrase(told[key]))


def _phrase(sentence: str) -> str:
    """A docstring as a cell has it: without full stop, and in lower case where the first word is no name."""
    first, _, _ = sentence.partition(" ")
    begin = sentence[:1].lower() if first[1:].islower() or len(first) == 1 else sentence[:1]
    return begin + sentence[1:].removesuffix(".")


def _shared_flags() -> Iterator[str]:
    """The flags of what works on a seed; one that means something else in another command has a row for each."""
    yield from _head("flag", "of", "type", "default", "what and why")
    told: dict[tuple[str, ...], list[str]] = {}
    for command, model in _ON_A_SEED.items():
        for name, field in described(model).items():
            told.setdefault(_cells(name, field), []).append(command)
    order = [
        flag_name(each) for model in (ServeSettings, ProberSettings) for each in model.model_fields
    ]
    for (flag, *rest), commands in sorted(
        told.items(), key=lambda it: order.index(it[0][0].strip("`-"))
    ):
        of = "all" if len(commands) == len(_ON_A_SEED) else ", ".join(commands)
        yield _row(flag, of, *rest)


def _flags(model: type[CommandSettings]) -> Iterator[str]:
    yield from _head("flag", "type", "default", "what and why")
    for name, field in described(model).items():
        yield _row(*_cells(name, field))


def _cells(name: str, field: FieldInfo) -> tuple[str, ...]:
    kind = shown_type(field) or "boolean"
    return (f"`--{flag_name(name)}`", kind, shown_default(field), str(field.description))


def _head(*names: str) -> Iterable[str]:
    return (_row(*names), "|" + "---|" * len(names))


def _row(*cells: str) -> str:
    shown = (each.replace("|", r"\|") for each in cells)
    return "|" + "".join(f" {each} |" if each else " |" for each in shown)


def main() -> None:
    """Renews the page."""
    PAGE.write_text(regenerated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
