"""The file of `--auth-token-file`: who is known by it, what is refused with which words, and how it changes."""

import hashlib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.clock import Clock
from app.core.config.token_file import TokenTable, load_token_file, parse_tokens
from app.core.errors import ConfigurationError
from app.core.files import EVERY
from app.core.model.callers import Caller, Role

ALICE, BOB = "alices-token", "bobs-token"
CANARY = "canary-5up3r-secret"
WHERE = Path("tokens.yaml")


def digest(token):
    return hashlib.sha256(token.encode()).hexdigest()


def entry(name="alice", role="viewer", token=ALICE):
    return f"- name: {name}\n  role: {role}\n  sha256: {digest(token)}\n"


def table(text) -> TokenTable:
    return parse_tokens(WHERE, text.encode())


def mistakes(text):
    with pytest.raises(ConfigurationError) as caught:
        parse_tokens(WHERE, text if isinstance(text, bytes) else text.encode())
    assert caught.value.source == "tokens.yaml"
    assert CANARY not in repr(caught.value) + repr(caught.value.__cause__)
    return [str(each) for each in caught.value.mistakes]


def test_a_caller_is_who_has_the_token_of_a_hash():
    found = table(entry() + entry("bob", "admin", BOB))
    assert found.caller(ALICE) == Caller("alice", Role.VIEWER)
    assert found.caller(BOB) == Caller("bob", Role.ADMIN)


@pytest.mark.parametrize("token", ["", "x", ALICE.upper(), ALICE + " ", digest(ALICE)])
def test_any_other_token_is_nobodys(token):
    assert table(entry()).caller(token) is None


def test_a_hash_may_be_written_in_capitals_and_a_file_in_json():
    text = f'[{{"name": "alice", "role": "operator", "sha256": "{digest(ALICE).upper()}"}}]'
    assert table(text).caller(ALICE) == Caller("alice", Role.OPERATOR)


LIST = "(file): must be a list of callers, each with name, role and sha256"
KEYS = "has an unknown key; the keys are name, role and sha256"
NAME = "line 1: [0].name: must be a name of at most 100 printable characters"
ROLE = "line 2: [0].role: must be viewer, operator or admin"
SHA = "line 3: [0].sha256: must be the SHA-256 of a token"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [LIST]),
        ("[]", [f"line 1: {LIST}"]),
        (f"tokens: {CANARY}", [f"line 1: {LIST}"]),
        (f"- {CANARY}", ["line 1: [0]: must be a mapping"]),
        (f"- !!python/name:{CANARY} x", ["line 1: [0]: must be a mapping"]),
        (entry() + f"  {CANARY}: 1\n", [f"line 4: [0]: {KEYS}"]),
        (
            entry().replace("name", "Name"),
            [f"line 1: [0]: {KEYS}", "line 1: [0].name: is required"],
        ),
        ("- {name: alice}", ["line 1: [0].role: is required", "line 1: [0].sha256: is required"]),
        ("- name:\n  role: admin\n  sha256: " + digest("x"), ["line 1: [0].name: is required"]),
        (entry("'  '"), [NAME]),
        (entry("x" * 101), [NAME]),
        (entry('"a\\u202eb"'), [NAME]),
        (entry("12"), ["line 1: [0].name: must be a string; quote it"]),
        (entry(role="root"), [ROLE]),
        (entry(role="[admin]"), [ROLE]),
        (f"- name: alice\n  role: admin\n  sha256: {CANARY}\n", [f"{SHA}: 64 hexadecimal digits"]),
        (entry().replace(digest(ALICE), digest(ALICE)[:-1]), [f"{SHA}: 64 hexadecimal digits"]),
        (entry(token=""), [f"{SHA}, not of the empty string"]),
        (entry() + entry(token=BOB), ["line 4: [1].name: is also that of [0] on line 1"]),
        (entry() + entry("bob"), ["line 6: [1].sha256: is also that of [0] on line 1"]),
        (entry() + "  role: admin\n", ["line 4: [0].role: is given twice, first on line 2"]),
        (b"\xff\xfe" + CANARY.encode(), ["(file): is not UTF-8 text (byte 0)"]),
    ],
)
def test_what_is_wrong_is_refused_with_its_exact_message_and_no_value(text, expected):
    assert mistakes(text) == expected


def test_all_mistakes_are_said_at_once():
    text = entry(role="root") + "- x\n" + entry("carol", token="") + entry("dave", "boss", BOB)
    assert [each.partition(": must")[0] for each in mistakes(text)] == [
        "line 2: [0].role",
        "line 4: [1]",
        "line 7: [2].sha256",
        "line 9: [3].role",
    ]


@settings(deadline=None)  # the machine may be busy
@given(st.text(alphabet="-[]{}:,&*!|>'\" \nnamerolesha256abcdef0123", max_size=80))
def test_any_text_gives_a_table_or_a_configuration_error(text):
    with suppress(ConfigurationError):
        assert table(text).known


def written(path: Path, text: str, mode=0o600):
    path.write_text(text)
    path.chmod(mode)
    return path


async def test_a_file_that_changes_is_read_again_within_seconds_and_a_wrong_one_changes_nothing(
    tmp_path, lines
):
    path = written(tmp_path / "tokens", entry())
    found = await load_token_file(path, Clock.of_loop())
    written(path, entry("bob", "admin", BOB))
    assert found.value.caller(BOB) is None
    await found.check()
    written(path, f"- {CANARY}")
    await found.check()
    await found.check()
    assert found.value.caller(BOB) == Caller("bob", Role.ADMIN)
    assert found.value.caller(ALICE) is None
    assert found.trouble == f"{path}: line 1: [0]: must be a mapping"
    told = [(each["what"], each["log_level"]) for each in lines]
    assert told == [("token file", "info"), ("token file", "error")]
    assert CANARY not in repr(lines)
    assert EVERY <= 10


async def test_a_file_that_others_may_read_is_refused(tmp_path):
    (tmp_path / "link").symlink_to(written(tmp_path / "tokens", entry(), 0o644))
    with pytest.raises(ConfigurationError, match="may be read or written by others"):
        await load_token_file(tmp_path / "link", Clock.of_loop())


async def test_a_volume_of_kubernetes_that_swaps_its_link_is_noticed(tmp_path):
    for name, text in (("..1", entry()), ("..2", entry("bob", "admin", BOB))):
        (tmp_path / name).mkdir()
        written(tmp_path / name / "tokens", text, 0o440)
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "tokens").symlink_to("..data/tokens")
    found = await load_token_file(tmp_path / "tokens", Clock.of_loop())
    (tmp_path / "..data_tmp").symlink_to("..2")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")
    await found.check()
    assert found.value.caller(BOB) == Caller("bob", Role.ADMIN)
