"""Which addresses an external API server may have (threat T5), and what its kubeconfig may name."""

import ipaddress
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import AddressForbidden, CredentialRefused
from app.core.kube.kubeconfig import ExternalServerPolicy, ServerPolicy, is_forbidden, is_literal
from tests.core.kube.test_kubeconfig import config, parse, refusal

ANY = ExternalServerPolicy()
ADDRESSES = yaml.safe_load((Path(__file__).parent / "addresses.yaml").read_text())
FORBIDDEN = ADDRESSES["forbidden"]
HOLDING = ("::{}", "::ffff:{}", "::ffff:0:{}", "64:ff9b::{}", "64:ff9b:1::{}", "64:ff9b:1:abcd::{}")
INTO_THIS_MACHINE = {
    "an address": [*FORBIDDEN, *ADDRESSES["forbidden of IPv6"]],
    "one within another": [outer.format(inner) for outer in HOLDING for inner in FORBIDDEN],
    # 6to4 of 127.0.0.1 and of 169.254.169.254, Teredo of 127.0.0.1
    "a tunnel": ["2002:7f00:1::1", "2002:a9fe:a9fe::", "2001:0:5ef5:79fb:0:59d:80ff:fffe"],
    "none": ["", "localhost", "127.1", "2130706433", "0x7f.1", "::1::", "a b"],
}


@pytest.mark.parametrize("kind", INTO_THIS_MACHINE)
def test_what_leads_into_this_machine_its_link_or_to_everybody_is_forbidden(kind):
    assert [each for each in INTO_THIS_MACHINE[kind] if not is_forbidden(each)] == []


@pytest.mark.parametrize("address", ADDRESSES["allowed"])
def test_other_addresses_are_allowed_private_ones_too(address):
    assert not is_forbidden(address)


@given(st.ip_addresses(v=4))
def test_any_ipv4_address_is_judged_by_its_network_alone(address):
    networks = ("127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "0.0.0.0/8")
    expected = any(address in ipaddress.ip_network(network) for network in networks)
    assert is_forbidden(str(address)) is expected


@given(st.ip_addresses(v=4), st.sampled_from(HOLDING))
def test_an_address_within_an_address_is_judged_as_it_is_alone(address, outer):
    whole = ipaddress.ip_address(outer.format(address))
    assert is_forbidden(str(whole)) is (is_forbidden(str(address)) or whole.is_loopback)


@given(st.ip_addresses(v=6))
def test_of_ipv6_addresses_at_least_what_python_calls_special_is_forbidden(address):
    special = address.is_loopback or address.is_link_local or address.is_multicast
    if special or address.is_unspecified:
        assert is_forbidden(str(address))


@given(st.one_of(st.ip_addresses(), st.text(max_size=40)))
def test_every_text_is_judged(value):
    assert is_forbidden(str(value)) in {True, False}
    assert is_literal(str(value)) in {True, False}


def test_only_those_addresses_of_a_name_are_used_that_are_allowed():
    found = ANY.allowed(["127.0.0.1", "203.0.113.5", "::1", "2001:db8::1"])
    assert found == {"203.0.113.5", "2001:db8::1"}


@pytest.mark.parametrize("policy", [ANY, ExternalServerPolicy(".*")])
def test_a_name_with_forbidden_addresses_only_names_the_flag_even_where_it_was_given(policy):
    with pytest.raises(AddressForbidden, match="--external-server-pattern"):
        policy.allowed(["127.0.0.1", "fe80::1"])


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "169.254.169.254", "::ffff:127.0.0.1"])
def test_a_forbidden_literal_is_allowed_only_by_the_flag(host):
    with pytest.raises(AddressForbidden, match="--external-server-pattern"):
        ANY.check(host)
    ExternalServerPolicy(".*").check(host)
    for other in ("203.0.113.5", "2001:db8::1", "api.example", "localhost"):
        ANY.check(other)


@pytest.mark.parametrize(
    ("server", "host", "port"),
    [
        ("https://api.one.example", "api.one.example", 443),
        ("https://api.one.example:8443", "api.one.example", 8443),
        ("https://203.0.113.5:6443", "203.0.113.5", 6443),
        ("https://[2001:DB8::1]:1", "[2001:db8::1]", 1),
        ("https://127.0.0.1:65535", "127.0.0.1", 65535),  # refused when it is asked
    ],
)
def test_the_external_server_may_have_any_name_and_any_port(server, host, port):
    got = parse(config(cluster={"server": server}), ANY)
    assert (got.host, got.port) == (host, port)


@pytest.mark.parametrize("policy", [ANY, ExternalServerPolicy(".*"), ServerPolicy(pattern=".*")])
@pytest.mark.parametrize("server", ADDRESSES["no servers"])
def test_anything_else_than_host_and_port_is_refused_with_the_name_of_its_flag(server, policy):
    error = refusal(config(cluster={"server": server}), policy)
    assert error.reason == "server"
    assert re.findall("--[a-z-]+-pattern", str(error)) == [policy.flag]


def test_a_pattern_must_match_all_of_the_external_server():
    policy = ExternalServerPolicy(r"api\.{namespace}\.example:443")
    right = "https://api.shoot--dev--one.example"
    assert parse(config(cluster={"server": right}), policy).port == 443
    for wrong in (right + ":8443", "https://api.shoot--dev--two.example", right + ".evil.example"):
        with pytest.raises(CredentialRefused, match="--external-server-pattern"):
            parse(config(cluster={"server": wrong}), policy)
