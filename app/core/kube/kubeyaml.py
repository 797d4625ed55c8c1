"""YAML from strangers as plain data: no anchors, no repeated keys, no depth, no size that could hurt; pure."""

from collections.abc import Hashable
from typing import Any, Final

import yaml

MAX_BYTES: Final = 1 << 20
_MAX_DEPTH: Final = 16


class YamlRefused(Exception):
    """The text is not one that we read; the message quotes none of it."""


class _Strict(yaml.CSafeLoader):
    """The safe loader, which also refuses a key that is written twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 - the signature is PyYAML's
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(keys) != len(node.value):
            raise YamlRefused("a key is not a plain word")
        if len(set(keys)) != len(keys):
            raise YamlRefused("a key is there twice")
        return super().construct_mapping(node, deep)


def load(raw: bytes) -> object:
    """The one document in `raw`.

    Raises:
        YamlRefused: it is too long, too deep, malformed, or uses anchors, aliases, own tags or repeated keys.
    """
    if len(raw) > MAX_BYTES:
        raise YamlRefused(f"it is longer than {MAX_BYTES} bytes")
    try:
        _check_events(raw)
        return yaml.load(raw, Loader=_Strict)  # noqa: S506 - _Strict is the safe loader, made stricter
    except (
        yaml.YAMLError,
        ValueError,
        OverflowError,
        RecursionError,
        LookupError,
        AttributeError,
        TypeError,
    ) as error:
        # the last three are what PyYAML's constructors raise where a tag does not fit its value
        # the parser's message quotes the text, which may be a secret
        raise YamlRefused("it is not well-formed YAML") from (
            error if isinstance(error, OverflowError | RecursionError) else None
        )


def _check_events(raw: bytes) -> None:
    """Walks over the text before anything is built from it: that cannot recurse nor expand."""
    depth = documents = 0
    for event in yaml.parse(raw, Loader=yaml.CSafeLoader):
        match event:
            case yaml.AliasEvent():
                raise YamlRefused("it uses an alias")
            case yaml.DocumentStartEvent():
                documents += 1
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent() | yaml.ScalarEvent():
                if event.anchor is not None:
                    raise YamlRefused("it uses an anchor")
                if event.tag is not None and not event.tag.startswith("tag:yaml.org,2002:"):
                    raise YamlRefused("it uses a tag")
            case _:
                pass
        depth += _step(event)
        if depth > _MAX_DEPTH or documents > 1:
            raise YamlRefused("it is nested too deeply, or more than one document")


def _step(event: yaml.Event) -> int:
    match event:
        case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
            return 1
        case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
            return -1
        case _:
            return 0
