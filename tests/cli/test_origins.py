"""Where a request may go on to: pure."""

import pytest

from app.cli import transports
from app.core.config.values import Origin, in_namespace, origin, reason

PLAIN = Origin("http", "127.0.0.1", 8080)
SECURE = Origin("https", "dwd.garden.svc", 8443)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("http://a", Origin("http", "a", 80)),
        ("https://a", Origin("https", "a", 443)),
        ("https://A.b.svc:8080/", Origin("https", "a.b.svc", 8080)),
        ("http://[::1]:8080", Origin("http", "::1", 8080)),
        ("http://127.0.0.1:1", Origin("http", "127.0.0.1", 1)),
    ],
)
def test_an_origin_is_scheme_host_and_port(text, found):
    assert origin(text) == found
    assert origin(str(found)) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a:8080",
        "ftp://a",
        "http://",
        "http://a:0",
        "http://a:65536",
        "http://a:",
        "http://a/b",
        "http://a?b",
        "http://a b",
        "http://user:secret@a",
        "http://[a]",
        "http://[1.2.3.4]",
        "http://a\n",
    ],
)
def test_what_is_no_origin_is_refused(text):
    with pytest.raises(ValueError, match=r"^must "):
        origin(text)


@pytest.mark.parametrize(
    ("text", "loopback"),
    [
        ("http://localhost", True),
        ("http://127.9.9.9", True),
        ("http://[::1]", True),
        ("http://localhost.example.org", False),
        ("http://10.0.0.1", False),
        ("http://127.0.0.1.example.org", False),
        ("http://0.0.0.0", False),
    ],
)
def test_plain_http_exposes_a_token_everywhere_but_on_this_machine(text, loopback):
    assert origin(text).loopback is loopback
    assert transports.exposes(origin(text)) is not loopback
    assert not transports.exposes(origin(text.replace("http", "https", 1)))


@pytest.mark.parametrize(
    ("asked", "address", "found"),
    [
        (PLAIN, "10.0.0.7", "http://10.0.0.7:8080"),
        (PLAIN, "10.0.0.7:9090", "http://10.0.0.7:9090"),
        (PLAIN, "fd00::1", "http://[fd00::1]:8080"),
        (PLAIN, "[fd00::1]", "http://[fd00::1]:8080"),
        (PLAIN, "[fd00::1]:9090", "http://[fd00::1]:9090"),
        (PLAIN, "http://10.0.0.7:9090", "http://10.0.0.7:9090"),
        (PLAIN, "https://10.0.0.7", "https://10.0.0.7:443"),
        (SECURE, "10.0.0.7", "https://10.0.0.7:8443"),
        (SECURE, "https://10.0.0.7:1", "https://10.0.0.7:1"),
        (SECURE, "http://10.0.0.7:1", None),
        (PLAIN, "10.0.0.7/x", None),
        (PLAIN, "user@10.0.0.7", None),
        (PLAIN, "", None),
        (PLAIN, "a b", None),
    ],
)
def test_a_leader_is_asked_as_the_standby_was_unless_its_address_says_otherwise(
    asked, address, found
):
    leader = transports.of_leader(asked, address)
    assert (None if leader is None else str(leader)) == found


def test_a_peer_is_no_step_down_from_tls():
    assert transports.of_peer(SECURE, "http://peer:8080") is None
    assert transports.of_peer(PLAIN, "http://peer/path") is None
    assert transports.of_peer(PLAIN, "https://peer") == Origin("https", "peer", 443)


@pytest.mark.parametrize(
    ("identity", "pod"),
    [
        ("dwd-6d5f-abcde_3f1c", "dwd-6d5f-abcde"),
        ("--all_3f1c", None),
        ("a b_3f1c", None),
        ("dwd", None),
        ("_3f1c", None),
        ("", None),
        (None, None),
    ],
)
def test_the_pod_of_a_leader_is_in_its_identity(identity, pod):
    assert transports.pod_of(identity) == pod


def test_the_service_of_a_peer_is_one_of_the_same_namespace():
    peer = origin("http://dwd-weeder.garden.svc.cluster.local:8080")
    assert transports.service_of(peer, "garden") == "dwd-weeder"
    assert transports.service_of(peer, "other") is None
    assert transports.service_of(origin("http://dwd-weeder.garden.example"), "garden") is None
    assert transports.service_of(origin("http://dwd-weeder"), "garden") is None
    assert transports.service_of(origin("http://-x.garden.svc"), "garden") is None


@pytest.mark.parametrize("text", ["", "a", "a/", "/a", "a/b/c", "A/b", "a/-b", "--x/b"])
def test_what_is_no_deployment_is_refused(text):
    with pytest.raises(ValueError, match=r"^must be NAMESPACE/DEPLOYMENT"):
        in_namespace("DEPLOYMENT").parse(text)


@pytest.mark.parametrize("text", ["", "  ", "x" * 301, "a\nb", "a\x1bb"])
def test_what_says_no_why_is_refused(text):
    with pytest.raises(ValueError, match=r"^must be one line"):
        reason(text)
