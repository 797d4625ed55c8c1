"""Whom a request comes from, where proxies stand between."""

import ipaddress

import pytest

from app.core.web.peers import Proxies

NAMED = Proxies([ipaddress.ip_network("10.1.0.0/16"), ipaddress.ip_network("2001:db8::1/128")])


def client(*headers, proxy="10.1.0.1"):
    return NAMED.client(proxy, [(b"x-forwarded-for", each.encode("latin-1")) for each in headers])


@pytest.mark.parametrize(
    "host", ["10.1.0.1", "10.1.255.255", "::ffff:10.1.0.1", "2001:db8::1", "2001:DB8:0::1%eth0"]
)
def test_those_that_are_named_are_believed(host):
    assert host in NAMED


@pytest.mark.parametrize(
    "host", ["10.2.0.1", "127.0.0.1", "::1", "2001:db8::2", "::ffff:10.2.0.1", "", "10.1", "a host"]
)
def test_nobody_else_is(host):
    assert host not in NAMED


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "10.1.0.1", ""])
def test_where_none_is_named_nobody_is(host):
    assert host not in Proxies()


def test_a_proxy_that_says_nothing_asks_for_itself():
    assert client() == client("") == "10.1.0.1"


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("9.9.9.9", "9.9.9.9"),
        (" 9.9.9.9 ", "9.9.9.9"),
        ("9.9.9.9:4711", "9.9.9.9"),
        ("[2001:db8::9]:4711", "2001:db8::9"),
        ("[2001:db8::9]", "2001:db8::9"),
        ("2001:DB8::9", "2001:db8::9"),
        ("::ffff:9.9.9.9", "9.9.9.9"),
    ],
)
def test_the_address_is_read_as_proxies_write_it(header, found):
    assert client(header) == found


def test_what_a_caller_says_of_itself_is_behind_what_the_proxy_adds():
    assert client("1.1.1.1, 9.9.9.9") == client("1.1.1.1", "9.9.9.9") == "9.9.9.9"
    assert client("10.1.0.7, 9.9.9.9") == "9.9.9.9"


def test_a_proxy_in_front_of_a_proxy_is_believed_as_well():
    assert client("1.1.1.1, 9.9.9.9, 10.1.0.7, 2001:db8::1") == "9.9.9.9"


def test_where_all_are_proxies_it_is_the_first_of_them():
    assert client("10.1.0.8, 10.1.0.7") == "10.1.0.8"


@pytest.mark.parametrize("said", ["unknown", "_hidden", "<script>", "9.9.9", "\xff", "9.9.9.9, "])
def test_what_is_no_address_ends_the_way(said):
    assert client(said) == "10.1.0.1"
    assert client(f"9.9.9.9, {said}, 10.1.0.7") == "10.1.0.7"


def test_no_more_than_twenty_in_a_row_are_believed():
    assert client(", ".join(["9.9.9.9", *["10.1.0.7"] * 19])) == "9.9.9.9"
    assert client(", ".join(["9.9.9.9", *["10.1.0.7"] * 20])) == "10.1.0.7"
