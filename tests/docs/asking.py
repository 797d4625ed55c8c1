"""What the parsers of the two files take, found out by asking them: type, default and limits of each key.

Each key of a small valid file is given values that are wrong in every way; what the parser says of them is what the
page says. So the page cannot say anything else than what the program does.
"""

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml
from pydantic import TypeAdapter

from app.api.routers.status import prober_file
from app.core.config.policy_files import parse_prober, parse_weeder
from app.core.config.values import FileKind
from app.core.errors import ConfigurationError
from app.core.model.policy import ProberPolicy
from app.core.model.weeding import WeederPolicy

Document = dict[str, Any]

_SHOWN: Final = TypeAdapter[ProberPolicy | WeederPolicy](ProberPolicy | WeederPolicy)

_SCALE: Final = {"level": 0}
_ENDPOINT_MODE: Final = {
    "internalKubeConfigSecretName": "inside",
    "externalKubeConfigSecretName": "outside",
}
_HANDLERS: Final[Mapping[str, Document]] = {
    "tcpSocket": {"port": 1},
    "httpGet": {"port": 1},
    "grpc": {"port": 1},
    "exec": {"command": ["true"]},
}
PROBE: Final = "endpointProbes[]."
"""What the rows of the table of endpoint probes begin with."""
_SMALL: Final[Mapping[FileKind, Document]] = {
    FileKind.PROBER: {
        "kubeConfigSecretName": "probe",
        "dependentResourceInfos": [
            {
                "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "controller"},
                "scaleUp": _SCALE,
                "scaleDown": _SCALE,
            }
        ],
    },
    FileKind.WEEDER: {
        "servicesAndDependantSelectors": {
            "service": {
                "podSelectors": [{"matchExpressions": [{"key": "role", "operator": "Exists"}]}]
            }
        }
    },
}
_DOTS: Final = {
    FileKind.PROBER: "dependentResourceInfos[].scaleUp.",
    FileKind.WEEDER: "servicesAndDependantSelectors.*.podSelectors[].",
}
"""What `….` stands for in the name of a row."""
_WRONG: Final[tuple[object, ...]] = ([[]], {"-": {}}, "-", -1, 2, "-1s", "999h", [], {})
_ABSENT: Final = object()
_OTHER: Final = "1s"
"""An interval that is none of the defaults: what follows it is seen."""
_TYPES: Final = {
    "a duration such as 30s or 1m40s": "duration",
    "a whole number": "count",
    "a number": "number",
    "true or false": "boolean",
    "a list": "list",
    "a mapping": "mapping",
    "a string": "text",
    "a whole number from 1 to 65535 or the name of a container's port": "count or text",
}
_ENUMERATION: Final = re.compile(r"(?:[A-Z]\w+, )*[A-Z]\w+ or [A-Z]\w+")
_OF_ELSEWHERE: Final = (
    "with a unit",
    "with the operator",
    "selects endpoint mode",
    "second handler",
    "excludes podSelector",
)
"""Parts of sentences that are about the value given, or another key, and not about what this one may be."""
_HINTS: Final = re.compile(r" \([^()]*(?:units|lower case)[^()]*\)| to 2147483647|(?<=\dh)0m0s")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a table says of a key."""

    type: str
    default: str
    valid: str


def ask(kind: FileKind, row: str) -> Answer:
    """What the parser of `kind` takes for the key that the row of a table names."""
    steps = _steps(row.replace("….", _DOTS[kind]))
    said = [
        sentence
        for wrong in _WRONG
        for path, sentence in _mistakes(kind, _changed(kind, steps, wrong))
        if path == _path(steps)
    ]
    found, limits = _sorted_out(said)
    return Answer(found, _default(kind, steps), ", ".join(limits))


def _steps(row: str) -> list[str]:
    return row.replace("[]", ".[]").split(".")


def _path(steps: list[str]) -> str:
    joined = ".".join("service" if step == "*" else step for step in steps)
    return joined.replace(".[]", "[0]")


def _changed(kind: FileKind, steps: list[str], value: object) -> Document:
    """The small file with another value of one key; `_ABSENT` takes it away."""
    document = copy.deepcopy(dict(_SMALL[kind]))
    if steps[0] == "endpointProbes" and steps[1:]:
        document["endpointProbes"] = [_small_probe(steps)]
    place = _walk(document, steps[:-1])
    place[steps[-1]] = value
    if value is _ABSENT:
        del place[steps[-1]]
    return document


def _small_probe(steps: list[str]) -> Document:
    """A valid endpoint probe in which one key can be changed: with its handler, or beside another one."""
    key, *inside = steps[2:]
    handler = key if inside else next(each for each in _HANDLERS if each != key)
    target: Document = (
        {"host": "host"} if key == "podSelector" else {"podSelector": {"matchLabels": {}}}
    )
    return {"name": "probe", handler: dict(_HANDLERS[handler])} | target


def _walk(value: Any, steps: list[str]) -> Any:  # Any: a list or a mapping, as the steps go
    for step in steps:
        match step:
            case "[]":
                value = value[0]
            case "*":
                value = value["service"]
            case _:
                value = value.get(step)
    return value


def _mistakes(kind: FileKind, document: Document) -> list[tuple[str, str]]:
    """Path and sentence of each mistake that the parser finds."""
    try:
        _parsed(kind, document)
    except ConfigurationError as error:
        return [(each.path, each.message) for each in error.mistakes]
    return []


def _parsed(kind: FileKind, document: Document) -> ProberPolicy | WeederPolicy:
    text = yaml.safe_dump(document)
    match kind:
        case FileKind.PROBER:
            return parse_prober(text, "file", strict=True, allow_exec=True).policy
        case FileKind.WEEDER:
            return parse_weeder(text, "file", strict=True).policy


def _sorted_out(said: list[str]) -> tuple[str, list[str]]:
    """The type, and the limits in the order in which they were met."""
    kinds, limits = [], []
    for sentence in said:
        words = _HINTS.sub("", sentence.partition(", not ")[0].removeprefix("must be "))
        if words in _TYPES:
            kinds.append(_TYPES[words])
        elif _ENUMERATION.fullmatch(words):
            kinds.append(re.sub(r"([A-Z]\w+)", r"`\1`", words))
        elif words == "must not be empty":
            limits.append("not empty")
        elif not any(part in words for part in _OF_ELSEWHERE):
            limits.append(re.sub(r"(probeInterval) \(.*\)", r"`\1`", words))
    choices = [each for each in kinds if "`" in each]
    return (choices or kinds)[0], list(dict.fromkeys(limits))


def _default(kind: FileKind, steps: list[str]) -> str:
    without = _changed(kind, steps, _ABSENT)
    found = _default_of(kind, without, steps)
    if kind is FileKind.WEEDER:
        return found
    without.pop("kubeConfigSecretName", None)
    kept = {key: value for key, value in _ENDPOINT_MODE.items() if key != steps[0]}
    other = _default_of(kind, without | kept, steps)
    return found if other == found else f"{found}; in endpoint mode {other}"


def _default_of(kind: FileKind, without: Document, steps: list[str]) -> str:
    """What a key is in a file that does not have it."""
    if any(sentence.startswith("is required") for _, sentence in _mistakes(kind, without)):
        return "required"
    found = _in_force(kind, without, steps)
    other = found
    if kind is FileKind.PROBER and steps != ["probeInterval"]:
        other = _in_force(kind, without | {"probeInterval": _OTHER}, steps)
    return found if other == found else f"{found}, or `probeInterval` if that is shorter"


def _in_force(kind: FileKind, document: Document, steps: list[str]) -> str:
    """What the key is where it is not given, as `GET /api/v1/config` says it."""
    return _written(_walk(_view(_parsed(kind, document)), steps))


def _view(policy: ProberPolicy | WeederPolicy) -> Document:
    shown = prober_file(policy) if isinstance(policy, ProberPolicy) else policy
    return dict(_SHOWN.dump_python(shown, mode="json", by_alias=True))


def _written(value: object) -> str:
    match value:
        case None | [] | {} | "":
            return "none"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case _:
            return str(value)
