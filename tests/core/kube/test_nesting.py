"""What is left of JSON that is nested too deeply."""

import asyncio
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.clock import Clock
from app.core.kube import nesting
from app.core.kube.nesting import CUT, DEEPEST

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.text('ab"\\[]{}é\t', max_size=6))
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text('k"\\[{'), inner, max_size=3)
    ),
    max_leaves=30,
)


def nested(levels):
    return b"[" * levels + b"]" * levels


async def shallow(raw):
    return await nesting.shallow(raw, Clock.of_loop())


def cut(value, levels):
    """The same by recursion."""
    if not isinstance(value, list | dict):
        return value
    if not levels:
        return None
    if isinstance(value, list):
        return [cut(each, levels - 1) for each in value]
    return {key: cut(each, levels - 1) for key, each in value.items()}


@given(VALUES, st.integers(0, 6))
def test_what_lies_deeper_is_null_and_all_else_is_as_it_was(value, levels):
    raw = json.dumps(value).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nesting, "DEEPEST", levels)
        patch.setattr(nesting, "_AT_ONCE", 5)
        found = asyncio.run(shallow(raw))
    assert json.loads(found) == cut(value, levels)
    assert (CUT in found) == (found != raw)


@pytest.mark.parametrize("levels", [1, 64, 65, 949, 1_500, 10_000, 1_000_000])
async def test_any_number_of_levels_can_be_decoded_afterwards(levels):
    raw = b'{"a": %s, "b": [%s, 1], "c": "]"}' % (nested(levels), nested(levels))
    found = msgspec.json.decode(await shallow(raw))
    assert (found["b"][1], found["c"]) == (1, "]")
    assert (CUT in await shallow(raw)) is (levels >= DEEPEST - 1)


@pytest.mark.parametrize(
    "raw",
    [b"", b"]", b"]]]]" * 100, b'"', b'"[[', b"[" * 100, b'["\\', b"[[1]", b"\xff[", b'{"a":"\\"'],
)
async def test_what_is_no_json_is_no_better_afterwards(raw):
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        msgspec.json.decode(await shallow(raw))


@pytest.mark.parametrize(
    "piece", [b"[],", b'{"a":1},', b'"a",', b"1,", b'"\\"",', b'"\\\\",', b'"a[",']
)
async def test_others_have_their_turns_meanwhile(piece):
    turns = 0

    async def another():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    raw = b"[" + piece * (200_000 // len(piece)) + b"0]"
    beside = asyncio.create_task(another())
    assert await shallow(raw) == raw
    beside.cancel()
    assert turns > 8
