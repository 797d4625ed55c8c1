"""Who ended what, in the annotation of the ConfigMap: whatever it says, it does no harm."""

import json

import pytest

from app.core.overrides.document import EntryKey, EntryKind
from app.core.overrides.writer import ENDED_BY, MOST, signatures, signed
from app.core.ports import OverridesDocument

PAUSE = EntryKey("shoot--a", EntryKind.PAUSE)
GOOD = {"key": "shoot--a", "entry": "pause", "by": "bob", "at": "2027-01-15T08:00:00.000000Z"}


def document(annotation=None, **metadata):
    if annotation is not None:
        metadata["annotations"] = {"team": "a", ENDED_BY: annotation}
    whole = {"kind": "ConfigMap", "metadata": {"name": "n", **metadata}, "data": {"k": "v"}}
    return OverridesDocument("u", "7", {"k": "v"}, whole)


def names(found):
    return [each.by for each in signatures(found)]


def test_what_is_signed_is_read_and_everything_else_stays():
    found = signed(document(labels={"a": "b"}), [PAUSE], "bob", 1_800_000_000.0)
    assert [(each.place, each.by) for each in signatures(found)] == [(PAUSE, "bob")]
    assert (found.uid, found.resource_version, found.data) == ("u", "7", {"k": "v"})
    assert found.whole["metadata"]["labels"] == {"a": "b"}
    assert found.whole["data"] == {"k": "v"}
    again = signed(found, [PAUSE], "carol", 1_800_000_001.0)
    assert names(again) == ["bob", "carol"]


def test_annotations_of_others_stay():
    found = signed(document("[]"), [PAUSE], "bob", 0.0)
    assert found.whole["metadata"]["annotations"]["team"] == "a"


def test_the_last_few_are_kept_and_their_size_is_bounded():
    found = document()
    for number in range(1_000):
        place = EntryKey("n" * 253, EntryKind.HOLD)
        found = signed(found, [place], f"{number:04}" + "😀" * 5_000, float(number))
    assert [each[:4] for each in names(found)] == [f"{n:04}" for n in range(1_000 - MOST, 1_000)]
    written = found.whole["metadata"]["annotations"][ENDED_BY]
    assert len(json.loads(written)) == MOST
    assert len(written.encode()) < 34_000


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "{}",
        "7",
        "[7]",
        "[{}]",
        '[{"key": 1, "entry": "pause", "by": "bob", "at": ""}]',
        json.dumps([{**GOOD, "entry": "something"}]),
        json.dumps([{**GOOD, "by": " \n"}]),
        json.dumps([{**GOOD, "by": "x" * 70_000}]),
        '[{"more": ' + "[" * 30_000 + "]" * 30_000 + "}]",
        "\ud800",
    ],
)
def test_what_cannot_be_read_names_nobody_and_is_written_over(text):
    assert names(document(text)) == []
    assert names(signed(document(text), [PAUSE], "bob", 0.0)) == ["bob"]


@pytest.mark.parametrize("metadata", [{}, {"annotations": None}, {"annotations": {}}])
def test_without_annotations_nobody_is_named(metadata):
    found = document(**metadata)
    assert names(found) == []
    assert names(signed(found, [PAUSE], "bob", 0.0)) == ["bob"]
    assert signatures(None) == ()


def test_names_are_one_line_of_bounded_length_without_secrets():
    secret = "Bearer eyJhbGciOiJSUzI1NiJ9.s3cr3t-canary.signature"
    (name,) = names(document(json.dumps([{**GOOD, "by": f"a\nb\x1b[31m {secret} " + "x" * 999}])))
    assert name.isprintable()
    assert len(name) <= 320
    assert "s3cr3t" not in name
