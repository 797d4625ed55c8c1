"""Who holds how many connections, and whose is given up; whom a request comes from, where proxies stand between."""

import ipaddress
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.core.limits import Bucket
from app.core.web.peers import Peers, Proxies, peer_of

ADDRESSES = yaml.safe_load((Path(__file__).parent / "addresses.yaml").read_text())


class FakeLine:
    def __init__(self, *, waiting=True):
        self.waiting = waiting
        self.dropped = False

    def drop(self):
        self.dropped = True


Line: Any = FakeLine


def filled(peers, name, number, **kind):
    lines = [Line(**kind) for _ in range(number)]
    assert all(peers.admit(name, each) for each in lines)
    return lines


@pytest.mark.parametrize(("host", "peer"), ADDRESSES["peers"].items())
def test_one_machine_is_one_peer_whatever_addresses_it_chooses(host, peer):
    assert peer_of(host) == peer


def test_a_peer_over_its_maximum_loses_its_own_oldest_that_waits(time):
    peers = Peers(10, 2, time)
    other = filled(peers, "b", 1)
    lines = filled(peers, "a", 2)
    assert peers.admit("a", Line())
    assert [each.dropped for each in (*other, *lines)] == [False, True, False]
    assert len(peers) == 3


def test_what_is_being_answered_is_never_given_up(time):
    peers = Peers(10, 2, time)
    lines = filled(peers, "a", 2, waiting=False)
    assert not peers.admit("a", Line())
    assert not any(each.dropped for each in lines)
    assert peers.admit("b", Line()), "others have their places"


def test_where_all_places_are_taken_the_fullest_peer_gives_one(time):
    peers = Peers(4, 3, time)
    few, many = filled(peers, "few", 1), filled(peers, "many", 3)
    assert peers.admit("new", Line())
    assert [each.dropped for each in (*few, *many)] == [False, True, False, False]
    assert len(peers) == 4


def test_where_the_fullest_has_none_that_waits_the_next_gives_one(time):
    peers = Peers(3, 2, time)
    filled(peers, "busy", 2, waiting=False)
    (idle,) = filled(peers, "idle", 1)
    assert peers.admit("new", Line())
    assert idle.dropped


def test_nobody_is_let_in_where_all_are_being_answered(time):
    peers = Peers(2, 2, time)
    filled(peers, "a", 1, waiting=False)
    filled(peers, "b", 1, waiting=False)
    assert not peers.admit("c", Line())
    assert len(peers) == 2


def test_a_connection_that_was_given_up_and_ends_is_counted_once(time):
    peers = Peers(2, 1, time)
    (line,) = filled(peers, "a", 1)
    peers.admit("a", Line())
    peers.release("a", line)
    peers.release("nobody", line)
    assert len(peers) == 1


def test_connections_come_at_a_pace(time):
    peers = Peers(2_000, 2_000, time)
    assert sum(peers.admit("a", Line()) for _ in range(1_000)) == 400
    assert peers.admit("b", Line())
    assert all(peers.admit("a", Line(), many=True) for _ in range(100)), "a proxy at any"
    time.now += 1
    assert sum(peers.admit("a", Line()) for _ in range(1_000)) == 200


def test_requests_over_the_pace_are_read_later_and_later(time):
    peers = Peers(10, 10, time)
    assert [peers.pace("a") for _ in range(600)] == [0.0] * 600
    delays = [peers.pace("a") for _ in range(3)]
    assert delays == pytest.approx([1 / 300, 2 / 300, 3 / 300])
    assert peers.pace("b") == 0


def test_peers_that_have_gone_are_forgotten(time):
    peers = Peers(4, 4, time)
    (line,) = filled(peers, "stays", 1)
    for number in range(10_000):
        peers.pace(f"peer-{number}")
    assert len(peers._peers) <= 4 + 1_024
    peers.release("stays", line)
    assert len(peers) == 0


def test_a_bucket_never_holds_more_than_it_can():
    bucket = Bucket(rate=1, burst=2, now=0.0)
    assert [bucket.take(1_000.0) for _ in range(3)] == [True, True, False]
    assert bucket.seconds_to(1, 1_000.5) == pytest.approx(0.5)


def test_a_bucket_is_not_filled_by_a_clock_that_goes_back():
    bucket = Bucket(rate=1, burst=1, now=100.0)
    assert bucket.take(100.0)
    assert not bucket.take(50.0)
    assert not bucket.take(50.5)
    assert bucket.take(51.5)


# Proxies.


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


@pytest.mark.parametrize(("header", "found"), ADDRESSES["forwarded"].items())
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
