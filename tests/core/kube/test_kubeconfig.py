"""What a kubeconfig may say, and what is refused by its name (threats T1-T5, T12)."""

import base64
import json
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives import serialization as s
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import CredentialRefused
from app.core.kube import kubeconfig
from app.core.kube.kubeconfig import REASONS, ServerPolicy, ShootCredential, parse_kubeconfig
from tests.core.kube.server import AUTHORITY
from tests.support.kubeconfigs import kubeconfig_of

NAMESPACE = "shoot--dev--one"
CANARY = "canary-8f3a"
WORDS = yaml.safe_load((Path(__file__).parent / "kubeconfigs.yaml").read_text())
CA = base64.b64encode(AUTHORITY.pem).decode()
PAIR = AUTHORITY.client("dwd")
CERT = base64.b64encode(PAIR.certificate).decode()
KEY = base64.b64encode(PAIR.key).decode()


def config(*, cluster=None, user=None, top=None, context=None):
    server = {"server": f"https://kube-apiserver.{NAMESPACE}.svc", "certificate-authority-data": CA}
    known = {"token": CANARY} if user is None else user
    found = kubeconfig_of(NAMESPACE, server | (cluster or {}), known, **(context or {}))
    return found | (top or {})


def parse(document, policy=None) -> ShootCredential:
    raw = document if isinstance(document, bytes) else json.dumps(document).encode()
    return parse_kubeconfig(raw, NAMESPACE, policy or ServerPolicy())


def refusal(document, policy=None) -> CredentialRefused:
    with pytest.raises(CredentialRefused) as caught:
        parse(document, policy)
    error = caught.value
    assert error.reason in REASONS, "its counter begins at 0"
    chain = [error, error.__cause__, None if error.__suppress_context__ else error.__context__]
    assert CANARY not in " ".join(f"{each} {each!r}" for each in chain)
    return error


def test_a_kubeconfig_as_gardener_writes_it_is_read():
    got = parse(config())
    assert (got.host, got.port) == (f"kube-apiserver.{NAMESPACE}.svc", 443)
    assert got.token == CANARY
    assert got.ca == AUTHORITY.pem.decode()
    assert got.client is None


def test_yaml_is_read_with_kubectls_harmless_extras():
    document = config(
        context={"namespace": "kube-system"}, top={"preferences": {}}, user={"token": CANARY + "\n"}
    )
    assert parse(yaml.safe_dump(document).encode()).token == CANARY


def test_a_ca_bundle_of_several_certificates_is_one_bundle():
    two = base64.b64encode(AUTHORITY.pem * 2).decode()
    assert parse(config(cluster={"certificate-authority-data": two})).ca.count("BEGIN") == 2


def test_of_a_bundle_only_the_certificates_are_taken():
    noise = b"# the authority of garden\nsubject=CN\n"
    bundle = base64.b64encode(noise + AUTHORITY.pem + noise + PAIR.key + AUTHORITY.pem).decode()
    got = parse(config(cluster={"certificate-authority-data": bundle}))
    assert got.ca == AUTHORITY.pem.decode().rstrip() + "\n" + AUTHORITY.pem.decode()


@pytest.mark.parametrize(("number", "accepted"), [(100, True), (101, False)])
def test_a_bundle_may_have_100_certificates(number, accepted):
    document = config(
        cluster={"certificate-authority-data": base64.b64encode(AUTHORITY.pem * number).decode()}
    )
    if accepted:
        assert parse(document).ca.count("BEGIN") == number
    else:
        assert "more than 100 PEM blocks CERTIFICATE" in str(refusal(document))


def test_a_certificate_that_says_that_it_is_encrypted_is_none():
    """OpenSSL would ask for its password on the terminal, and wait."""
    head, _, body = AUTHORITY.pem.partition(b"\n")
    header = b"\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC," + b"0" * 32 + b"\n\n"
    ca = base64.b64encode(head + header + body).decode()
    error = refusal(config(cluster={"certificate-authority-data": ca}))
    assert "has no PEM block CERTIFICATE" in str(error)


def test_a_client_certificate_is_read():
    got = parse(config(user={"client-certificate-data": CERT, "client-key-data": KEY}))
    assert got.token is None
    assert got.client is not None
    kubeconfig.client_context(got.ca, got.client)


def test_nothing_secret_is_shown():
    got = parse(
        config(user={"token": CANARY, "client-certificate-data": CERT, "client-key-data": KEY})
    )
    assert CANARY not in repr(got)
    assert "PRIVATE" not in repr(got)
    assert "PRIVATE" not in repr(got.client)


@pytest.mark.parametrize("user", [{}, {"token": ""}, {"token": None}, None, "left out"])
def test_a_user_without_token_is_told_apart(user):
    document = config()
    document["users"][0]["user"] = user
    if user == "left out":
        del document["users"][0]["user"]
    assert refusal(document).reason == "no-token"


@pytest.mark.parametrize(("place", "field", "value", "reason"), WORDS["refused fields"])
def test_a_field_is_refused_by_its_name(place, field, value, reason):
    given = {"token": CANARY} if place == "user" else {}
    error = refusal(config(**{place: given | {field: value}}))
    assert error.reason == reason
    assert f"{place}s[0].{place}.{field} is not allowed" in str(error)


def test_a_key_that_may_be_a_secret_itself_is_not_shown():
    assert "unusual name" in str(refusal(config(user={CANARY + "!": "x"})))


@pytest.mark.parametrize("server", WORDS["servers elsewhere"])
def test_a_server_elsewhere_is_refused_and_the_flag_named(server):
    error = refusal(config(cluster={"server": server}))
    assert error.reason == "server"
    assert "--shoot-server-pattern" in str(error)


@pytest.mark.parametrize("suffix", ["", ":443", ":6443", ".cluster.local", ".cluster.local:6443"])
def test_the_api_server_of_the_own_namespace_is_allowed(suffix):
    got = parse(config(cluster={"server": f"https://kube-apiserver.{NAMESPACE}.svc{suffix}"}))
    assert got.host.startswith("kube-apiserver.")


def test_the_cluster_domain_can_be_another_one():
    server = f"https://kube-apiserver.{NAMESPACE}.svc.seed.example"
    assert parse(config(cluster={"server": server}), ServerPolicy("seed.example")).port == 443
    assert refusal(config(cluster={"server": server})).reason == "server"


def test_a_pattern_replaces_the_rule_and_must_match_all_of_it():
    policy = ServerPolicy(pattern=r"{namespace}\.example:[0-9]+")
    assert (
        parse(config(cluster={"server": f"https://{NAMESPACE}.example:8443"}), policy).port == 8443
    )
    assert refusal(config(), policy).reason == "server"
    longer = f"https://{NAMESPACE}.example:8443.evil.example"
    assert refusal(config(cluster={"server": longer}), policy).reason == "server"
    assert not ServerPolicy(pattern=r"api\.example:44").allows("ns", "api.example", 443)
    assert not ServerPolicy(pattern="{namespace}:443").allows("a.b", "axb", 443), "it is literal"


def base64_of(raw):
    return base64.b64encode(raw).decode()


def certified(**more):
    return {"user": {"client-certificate-data": CERT, "client-key-data": KEY, **more}}


def pem(place, field, *values):
    return [
        ({place: (certified()["user"] if place == "user" else {}) | {field: each}}, field)
        for each in values
    ]


REFUSED = [
    *(
        ({"top": {plural: found}}, plural)
        for plural in ("clusters", "contexts", "users")
        for found in ([], None, [{"name": NAMESPACE}] * 2)
    ),
    ({"top": {"current-context": "other"}}, "current-context"),
    ({"top": {"current-context": 3}}, "current-context"),
    ({"context": {"cluster": "other"}}, "contexts[0].context.cluster"),
    ({"context": {"user": "other"}}, "contexts[0].context.user"),
    ({"top": {"apiVersion": "v2"}}, "apiVersion"),
    ({"top": {"kind": "Secret"}}, "kind"),
    ({"top": {"preferences": {"colors": True}}}, "preferences"),
    ({"top": {"extensions": []}}, "kubeconfig.extensions"),
    *pem("user", "client-key-data", "!" + CANARY, base64_of(CANARY.encode())),
    *pem("user", "client-certificate-data", base64_of(b"\xff" + CANARY.encode()), 7),
    *pem("cluster", "certificate-authority-data", "", "%%%", base64_of(b"x"), None, 5),
    ({"user": {"client-certificate-data": CERT}}, "without its key"),
    # what could break a header
    *(
        ({"user": {"token": each}}, "users[0].user.token")
        for each in (f"{CANARY} b", f"{CANARY}\r\nX-Injected: 1", f"{CANARY}ü", [CANARY])
    ),
]


@pytest.mark.parametrize(("changes", "named"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_ambiguous_or_none_is_refused_by_its_field(changes, named):
    assert named in str(refusal(config(**changes)))


@pytest.mark.parametrize("plural", ["clusters", "contexts", "users"])
def test_what_is_ambiguous_is_counted_as_that(plural):
    document = config()
    document[plural] *= 2
    assert refusal(document).reason == "ambiguous"


@pytest.mark.parametrize(
    "text", ["17", "1:30", "0x1F", "1e3", "true", "2026-01-01", "'null'", '"~"', "=", "<<", ".inf"]
)
def test_a_scalar_is_text_whatever_it_probes_like(text):
    raw = yaml.safe_dump(config(user={"token": CANARY})).replace(CANARY, text)
    assert parse(raw.encode()).token == text.strip("'\"")


@pytest.mark.parametrize("text", ["", "~", "null", "Null", "NULL"])
def test_what_is_left_out_is_no_text(text):
    raw = yaml.safe_dump(config(user={"token": CANARY})).replace(CANARY, text)
    assert refusal(raw.encode()).reason == "no-token"


BOMB = b"a: &a [x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: [*b,*b,*b,*b]\n"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x00\xff",
        b"[]",
        b"text " + CANARY.encode(),
        b"{" + CANARY.encode(),
        b"a: !!python/object/apply:os.system ['" + CANARY.encode() + b"']",
        b"a: !custom x",
        b"a: !!str x",
        b"a: !!bool " + CANARY.encode(),
        b"a: !!timestamp " + CANARY.encode(),
        b"%YAML 1.1\n--- a",
        b"a: [" + b"b," * 1_000 + b"]",
        b"--- a\n--- b",
        BOMB,
        b"a: 1\na: 2",
        b"? [a]\n: b",
        b"a: " + b"[" * 100_000,
        b"a: " + b"x" * 384 * 1024,
    ],
)
def test_what_is_no_plain_yaml_is_refused_without_being_quoted(raw):
    assert refusal(raw).reason == "malformed"


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_any_bytes_give_a_credential_or_a_refusal(raw):
    with pytest.raises(CredentialRefused):
        parse(raw)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.sampled_from(["clusters", "contexts", "users", "current-context", "kind"]), VALUES)
def test_any_value_anywhere_gives_a_credential_or_a_refusal(key, value):
    raw = json.dumps(config(top={key: value})).encode()
    with suppress(CredentialRefused):
        parse(raw)


def test_a_bundle_that_openssl_refuses_is_refused():
    with pytest.raises(CredentialRefused, match="certificate-authority-data"):
        kubeconfig.client_context("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")


def test_a_key_that_is_encrypted_or_of_another_certificate_is_refused_without_asking_anybody():
    locked = s.load_pem_private_key(PAIR.key, None).private_bytes(
        s.Encoding.PEM, s.PrivateFormat.PKCS8, s.BestAvailableEncryption(b"x")
    )
    for wrong in (locked, AUTHORITY.client("x").key):
        got = parse(config(**certified(**{"client-key-data": base64_of(wrong)})))
        with pytest.raises(CredentialRefused, match="pair"):
            kubeconfig.client_context(got.ca, got.client)
