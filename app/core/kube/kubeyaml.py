"""YAML from strangers as text, lists and mappings: no anchors, no tags, no types, no size that could hurt; pure.

What a text could cost is bounded before it is parsed, and while it is: the parser's events are counted, and no more of
them are asked for.  Of PyYAML only libyaml's parser is used, which takes a time in proportion to the text.  Nothing is
resolved, constructed or merged: there it has integers of base 60, timestamps, and hashes that collide.
"""

import re
from collections.abc import Iterator
from typing import Final

import yaml

Value = None | str | list["Value"] | dict[str, "Value"]
"""What YAML holds; every scalar is text as it is written, and one that is left out, or a plain `null`, is None."""

MAX_BYTES: Final = 384 * 1024
"""A hundred certificates in base64 are 300 kB."""
MAX_EVENTS: Final = 1_000
"""A kubeconfig of one context has some 60."""
_MAX_DEPTH: Final = 16
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_DIRECTIVE: Final = re.compile("[\r\n\u0085\u2028\u2029\ufeff]%")
"""What follows another line; libyaml compares each `%TAG` with all before it."""


class YamlRefused(Exception):
    """The text is not one that we read; the message quotes none of it."""


class _Open:
    """A list or a mapping whose end has not come yet."""

    def __init__(self, value: list[Value] | dict[str, Value]) -> None:
        self.value = value
        self._key: str | None = None

    def put(self, value: Value) -> None:
        """One more item, key, or value of the key before."""
        if isinstance(self.value, list):
            self.value.append(value)
        elif self._key is not None:
            self.value[self._key], self._key = value, None
        elif not isinstance(value, str):
            raise YamlRefused("a key is not a plain word")
        elif value in self.value:
            raise YamlRefused("a key is there twice")
        else:
            self._key = value


def load(raw: bytes, *, max_bytes: int = MAX_BYTES, max_events: int = MAX_EVENTS) -> Value:
    """The one document in `raw`.

    Raises:
        YamlRefused: it is too long, too deep, malformed, or uses anchors, aliases, tags, directives or repeated keys.
    """
    if len(raw) > max_bytes:
        raise YamlRefused(f"it is longer than {max_bytes} bytes")
    try:
        text = raw.decode()
        if text.startswith("%") or ("%" in text and _DIRECTIVE.search(text)):
            raise YamlRefused("it uses a directive")
        return _built(yaml.parse(text, Loader=yaml.CBaseLoader), max_events)
    except (yaml.YAMLError, ValueError):
        # the parser's message quotes the text, which may be a secret
        raise YamlRefused("it is not well-formed YAML") from None


def _built(events: Iterator[yaml.Event], max_events: int) -> Value:
    """What these events describe; it does not recurse, and nothing expands."""
    root: list[Value] = []
    above = [_Open(root)]
    for number, event in enumerate(events):
        if number >= max_events:
            raise YamlRefused(f"it has more than {max_events} parts")
        _check(event)
        match event:
            case yaml.ScalarEvent(value=text, implicit=(plain, _)):
                above[-1].put(None if plain and text in _NULLS else text)
            case yaml.MappingStartEvent():
                above.append(_Open({}))
            case yaml.SequenceStartEvent():
                above.append(_Open([]))
            case yaml.CollectionEndEvent():
                done = above.pop()
                above[-1].put(done.value)
            case _:
                pass
        if len(above) > _MAX_DEPTH or len(root) > 1:
            raise YamlRefused("it is nested too deeply, or more than one document")
    return root[0] if root else None


def _check(event: yaml.Event) -> None:
    """Refuses what is more than text, lists and mappings."""
    if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
        raise YamlRefused("it uses an anchor or an alias")
    if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag is not None:
        raise YamlRefused("it uses a tag")
