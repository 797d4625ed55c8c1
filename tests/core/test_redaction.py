"""What looks like a secret, and what only sounds like one (threat T12)."""

from pathlib import Path
from time import process_time

import pytest
import yaml

from app.core import redaction

CANARY = "hunter2"
TEXTS = yaml.safe_load((Path(__file__).parent / "redaction.yaml").read_text())
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\n-----END RSA PRIVATE KEY-----"
BASE64_PEM = f"LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQpjNG40cnk{CANARY}"
PEMS = [PEM, PEM.replace("\n", "\\n"), PEM[:45], f"a {BASE64_PEM} b"]


@pytest.mark.parametrize("text", [*TEXTS["hidden"], *PEMS])
def test_nothing_of_a_secret_is_shown_in_whatever_form(text):
    assert CANARY in text
    assert CANARY not in redaction.clean(text)
    assert "redacted" in redaction.clean(text)


@pytest.mark.parametrize(("text", "shown"), TEXTS["replaced"].items())
def test_a_secret_is_replaced_and_what_is_around_it_stays(text, shown):
    assert CANARY in text
    assert redaction.clean(text) == shown
    assert redaction.one_line(text, 300) == " ".join(shown.split())
    assert redaction.clean(shown) == shown, "once is enough"


@pytest.mark.parametrize("text", TEXTS["stays"])
def test_what_only_sounds_like_one_stays(text):
    assert redaction.clean(text) == text


@pytest.mark.parametrize(
    "key",
    ["accessKey", "AWS_SECRET_ACCESS_KEY", "secret_key", "passphrase", "userPwd", "pwd", "pass", "pw",
     "token", "idToken", "id-token", "client-key-data", "Authorization", "kubeconfig", "set-cookie", "api_key"],
)  # fmt: skip
def test_a_value_is_not_shown_under_a_key_that_names_a_secret(key):
    assert redaction.clean_value("x", {key: CANARY}) == {key: "[redacted]"}


@pytest.mark.parametrize("key", ["secret", "secretName", "bypass", "passed", "accessKeyID"])
def test_a_value_is_shown_under_a_key_that_only_sounds_like_one(key):
    assert redaction.clean_value("x", {key: "kubeconfig"}) == {key: "kubeconfig"}


HEAD, BODY, SIGNATURE = (
    "eyJhbGciOiJSUzI1NiJ9",
    "eyJzdWIiOiJjYW5hcnktc3ViamVjdCJ9",
    "c2lnbmF0dXJlLWNhbmFyeQ",
)


@pytest.mark.parametrize("before", ["", "Bearer ", "Authorization: Bearer ", "token=", "--token "])
@pytest.mark.parametrize("at", [30, len(HEAD), len(HEAD) + 1, len(HEAD) + len(BODY) + 3])
@pytest.mark.parametrize("end", ["\n", "\r\n", " \n  "])
def test_a_jwt_that_goes_on_in_the_next_line_is_replaced_whole(before, at, end):
    jwt = f"{HEAD}.{BODY}.{SIGNATURE}"
    shown = redaction.one_line(f"{before}{jwt[:at]}{end}{jwt[at:]}\nis old", 300)
    assert shown == f"{redaction.one_line(before + jwt, 300)} is old"
    assert "[redacted]" in shown


def test_so_is_one_of_many_lines_and_one_with_what_is_not_seen():
    jwt = f"{HEAD}.{BODY * 4}.{SIGNATURE}"
    lines = "\n".join(jwt[at : at + 40] for at in range(0, len(jwt), 40))
    assert len(lines.rpartition("\n")[2]) < 16
    assert redaction.clean(f"a {lines}") == "a [redacted]"
    assert redaction.clean(f"a {lines}\nis old") == "a [redacted] is old"
    assert redaction.clean("a " + "\u200b".join(jwt)) == "a [redacted]"


def test_the_lines_of_a_traceback_stay():
    text = f"Traceback:\n  File x\nValueError: pass\u200bword=hunter2 {HEAD}\nlast\tline"
    shown = "Traceback:\n  File x\nValueError: password=[redacted] [redacted]\nlast line"
    assert redaction.clean_trace(text) == shown


@pytest.mark.parametrize(
    "key",
    [
        "ghp_" + "aB3" * 12,
        "gho_" + "aB3" * 12,
        "github_pat_11ABCDEFG0" + "a_B3" * 15,
        "xoxb-123456789012-1234567890123-" + "aB3" * 8,
        "xoxp-123456789012-" + "aB3" * 8,
        "AKIA" + "IOSFODNN7EXAMPLE",
        "ASIA" + "IOSFODNN7EXAMPLE",
    ],
)
@pytest.mark.parametrize("around", ["{}", "it was {}, I think", "GH_{}", "'{}'", "https://x/{}/y"])
def test_a_key_that_is_known_by_its_form_is_replaced(key, around):
    assert redaction.one_line(around.format(key), 300) == around.format("[redacted]")


@pytest.mark.parametrize(
    "text",
    ["ghp_", "ghp_x is a prefix", "AKIA", "AKIABCD", "AKIA" + "IOSFODNN7EXAMPLES", "xoxb-", "SLAKIA" + "A" * 16],
)  # fmt: skip
def test_what_only_begins_like_one_stays(text):
    assert redaction.one_line(text, 300) == text


HOSTILE = [
    "eyJaaaaaaaa\n", "eyJaaaaaaaa.\n ", "ghp_", "ghp_a", "xoxb-", "AKIA", "AKIAA", "\u200b", "pass\u200b", "\x1b", "\n",
    "://", "://a", "://@", "--", "--a", "--a-", "--aaaa-aaaa-aaaa-", "--token ", '--token "', "--token '", "--token\t",
    "secret", "secret ", "secret:", "secret: ", "secret='", 'secret="', "pass", "pass:", "aPass", "pw=", "pw ",
    "access ", "access_key", "api key", "private", "credentials", "token",
]  # fmt: skip


def seconds(text):
    """The least of a few, which the rest of the machine has least to do with."""

    def once():
        began = process_time()
        redaction.without_secrets(text)
        return process_time() - began

    return min(once() for _ in range(3))


@pytest.mark.parametrize("part", HOSTILE)
def test_a_hostile_text_takes_time_in_proportion_to_its_length(part):
    short, long = part * 1_000, part * 8_000
    assert seconds(long) < 0.02 + 24 * seconds(short)


@pytest.mark.parametrize(
    "before", ["--token", "token", "secret:", "https://", "--", "pass =", "eyJaaaaaaaa"]
)
@pytest.mark.parametrize("rest", [" ", "a", "a-", "\t", "@", ":", "\n", "\r\n"])
def test_a_long_rest_takes_no_longer(before, rest):
    assert seconds(before + rest * 40_000) < 0.02 + 24 * seconds(before + rest * 5_000)
