"""What looks like a secret, and what only sounds like one (threat T12)."""

from time import process_time

import pytest

from app.core import redaction

CANARY = "hunter2"
SECRETS = [
    # In URLs.
    ("https://admin:hunter2@lb", "https://[redacted]@lb"),
    ("see https://hunter2@lb/x?y", "see https://[redacted]@lb/x?y"),
    ("https://admin:p@hunter2@lb:8443", "https://[redacted]@lb:8443"),
    ("from https://a:hunter2@b to ftp://c:hunter2@d", "from https://[redacted]@b to ftp://[redacted]@d"),
    ('{"url":"postgres://u:hunter2@db/x"}', '{"url":"postgres://[redacted]@db/x"}'),
    ("https://lb/?secret=hunter2&x=1", "https://lb/?secret=[redacted]&x=1"),
    # Behind keys.
    ("secret=hunter2", "secret=[redacted]"),
    ("secret : hunter2", "secret : [redacted]"),
    ('{"secret": "hunter2"}', '{"secret": [redacted]}'),
    ("clientSecret: hunter2", "clientSecret: [redacted]"),
    ("client_secret=hunter2", "client_secret=[redacted]"),
    ("secretKey: hunter2", "secretKey: [redacted]"),
    ("AWS_SECRET_ACCESS_KEY=hunter2", "AWS_SECRET_ACCESS_KEY=[redacted]"),
    ("access_key: hunter2", "access_key: [redacted]"),
    ('"accessKey":"hunter2"', '"accessKey":[redacted]'),
    ("my access key: hunter2", "my access key: [redacted]"),
    ("pass=hunter2", "pass=[redacted]"),
    ("user: bob, pass: hunter2", "user: bob, pass: [redacted]"),
    ("DB_PASS=hunter2", "DB_PASS=[redacted]"),
    ("db-pass = hunter2", "db-pass = [redacted]"),
    ("dbPass: hunter2", "dbPass: [redacted]"),
    ("pwd: hunter2", "pwd: [redacted]"),
    ("MYSQL_PWD=hunter2", "MYSQL_PWD=[redacted]"),
    ("userPwd=hunter2", "userPwd=[redacted]"),
    ("pw: hunter2", "pw: [redacted]"),
    ("PW=hunter2", "PW=[redacted]"),
    ("passphrase=hunter2", "passphrase=[redacted]"),
    ("credential=hunter2", "credential=[redacted]"),
    ("credentials: hunter2", "credentials: [redacted]"),
    ("api-key: hunter2", "api-key: [redacted]"),
    ("X-API-KEY: hunter2", "X-API-KEY: [redacted]"),
    ("api_key=hunter2", "api_key=[redacted]"),
    ("API key: hunter2", "API key: [redacted]"),
    ("private_key='hunter2'", "private_key=[redacted]"),
    ("client_key_data=hunter2", "client_key_data=[redacted]"),
    ('password="hunter2 and more"', "password=[redacted]"),
    # Behind flags.
    ("dwd --token hunter2 status", "dwd --token [redacted] status"),
    ("--password   hunter2", "--password   [redacted]"),
    ("--password 'hunter2 and more' x", "--password [redacted] x"),
    ("--auth-token hunter2, then", "--auth-token [redacted], then"),
    ("--client-secret hunter2", "--client-secret [redacted]"),
    ("--api-key hunter2", "--api-key [redacted]"),
    ("--token=hunter2", "--token=[redacted]"),
    # Divided by what is not seen.
    ("pass\u200bword=hunter2", "password=[redacted]"),
    ("pass\u2060word\ufeff=\u202ehunter2", "password=[redacted]"),
    ("pa\xadss: hunter2", "pass: [redacted]"),
    ("pass\x00word\x7f=hunter2", "password=[redacted]"),
    ("token\x9b: hunter2", "token: [redacted]"),
    ("token\x1b: hunter2", "token : [redacted]"),
    ("https://u:hun\u200dter2hunter2@lb", "https://[redacted]@lb"),
    ("--to\u200bken hunter2", "--token [redacted]"),
]  # fmt: skip


PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\n-----END RSA PRIVATE KEY-----"
BASE64_PEM = f"LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQpjNG40cnk{CANARY}"
HIDDEN = [
    "Authorization: Bearer hunter2", "authorization=Basic hunter2", "'Authorization': 'Basic hunter2'",
    "sent bearer hunter2", "users: [{token: hunter2}]", '{"token": "hunter2 and more"}',
    '"{\\"token\\": \\"hunter2\\"}"', "client-key-data: hunter2", "id-token: hunter2",
    "https://x/?access_token=hunter2&a=b", "PASSWD : hunter2",
    PEM, PEM.replace("\n", "\\n"), PEM[:45], f"a {BASE64_PEM} b",
]  # fmt: skip


@pytest.mark.parametrize("text", HIDDEN)
def test_nothing_of_a_secret_is_shown_in_whatever_form(text):
    assert CANARY in text
    assert CANARY not in redaction.clean(text)
    assert "redacted" in redaction.clean(text)


@pytest.mark.parametrize(("text", "shown"), SECRETS)
def test_a_secret_is_replaced_and_what_is_around_it_stays(text, shown):
    assert CANARY in text
    assert redaction.clean(text) == shown
    assert redaction.one_line(text, 300) == " ".join(shown.split())
    assert redaction.clean(shown) == shown, "once is enough"


@pytest.mark.parametrize(
    "text",
    [
        "users[0].user.token: must be inline, not a file",
        "users[0].user.tokenFile is refused",
        "the bearer token is missing",
        "basic checks passed",
        "GET /api/v1/namespaces/garden/secrets/kubeconfig: 403",
        "kubeConfigSecretName: kubeconfig",
        "internalKubeConfigSecretName=kubeconfig",
        "secretRef: kubeconfig",
        "secret shoot--a/kubeconfig changed",
        'secrets "kubeconfig" is forbidden',
        "Secret kubeconfig: not there",
        "the secret: it was rotated",
        "kind: Secret",
        "token expired",
        "the token has expired, a newer token is there",
        "token: must be inline, not a file",
        "password rotated",
        "the password policy: at least 8 characters",
        "pass the test",
        "all tests pass, 2 of 3 in the first pass",
        "passed: 3",
        "passes=3",
        "bypass: none",
        "compass=north",
        "credentials of the shoot were refused",
        "CredentialsRefused: 401",
        "credentialsValid=False",
        "credentials: the server wants others",
        "access keys rotated",
        "accessKeyID: AKIA",
        "the access is keyed",
        "--auth-token-file /etc/tokens",
        "--token-file is not given",
        "--token is not given",
        "--token must be inline",
        "give --password, or none",
        "use --token or --token-file instead",
        "dwd --token --verbose",
        "https://lb:8443/healthz",
        "GET https://lb/a by bob@example.com",
        "https://lb, asked by bob@example.com",
        '{"url":"https://lb","by":"bob@example.com"}',
        "oci://registry/image@sha256:0123",
        "anna@example.com and bob@example.com",
    ],
)
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
