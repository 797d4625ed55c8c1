"""The list of shoots, and the pages of all lists; what it says is never older than what one shoot says."""

import asyncio
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.api.context import RenderedShoots
from app.api.dependencies import ListPage, PageKey, PageQuery, cut
from app.api.presenting import Endpoints
from app.api.problems import Problem
from app.api.routers.shoots import ShootQuery, list_shoots
from app.core.model.endpoints import CachedResult, GateReason, ProbeOutcome, Waiting
from app.core.model.overrides import NOTHING, EffectiveOverrides, Scope
from app.core.model.policy import Loop
from app.core.model.probing import ShootState
from app.core.model.weeding import ServiceKey
from app.core.reporting.notices import ScalingNotice
from tests.api.facts import (
    HOME,
    KCM,
    NAMESPACE,
    NOW,
    POLICY,
    attempt,
    container,
    endpoint,
    gate,
    healthy,
    not_probed,
    pause,
    protected,
    recovery,
    request,
    run,
    service,
    workload,
)
from tests.api.fakes import FakeShoots, context

LIST = "/api/v1/shoots"


def names(answer):
    assert answer.status_code == 200, answer.text
    return [each["namespace"] for each in answer.json()["items"]]


def in_state(namespace, state, since=NOW):
    return replace(healthy(namespace), state=state, since=since)


def test_the_worst_shoots_come_first_and_equals_by_name(client, shoots):
    for number, state in enumerate(reversed(ShootState)):
        shoots.add(in_state(f"shoot--{number}", state))
    worst, *others = ShootState
    shoots.add(in_state("shoot--a", worst), in_state("shoot--z", worst))
    items = client.get(LIST).json()["items"]
    found = [each["state"] for each in items]
    assert found == ["Unprotected"] * 3 + [str(state) for state in others]
    assert [each["namespace"] for each in items[:3]] == ["shoot--9", "shoot--a", "shoot--z"]


def test_shoots_are_sorted_by_name_or_by_the_last_change(client, shoots):
    shoots.add(in_state("b", ShootState.HEALTHY, NOW), in_state("a", ShootState.HEALTHY, NOW - 9))
    shoots.add(in_state("c", ShootState.PROTECTED, NOW - 5))
    assert names(client.get(LIST, params={"sort": "name"})) == ["a", "b", "c"]
    assert names(client.get(LIST, params={"sort": "since"})) == ["b", "c", "a"]


def test_states_filter_the_list_and_its_total(client, shoots):
    shoots.add(healthy("a"), protected("b"), not_probed("c"))
    answer = client.get(LIST, params={"state": ["Protected", "NotProbed"]})
    assert names(answer) == ["b", "c"]
    assert answer.json()["metadata"]["total"] == 2


def test_q_finds_a_part_of_the_namespace_whatever_the_case(client, shoots):
    shoots.add(healthy("shoot--acme--prod"), healthy("shoot--acme--dev"))
    assert names(client.get(LIST, params={"q": "PROD"})) == ["shoot--acme--prod"]
    assert names(client.get(LIST, params={"q": "nowhere"})) == []


def test_paused_finds_those_that_are_paused_now_whatever_the_scope(client, shoots, overrides):
    shoots.add(*(healthy(each) for each in ("all", "down", "free", "held", "past")))
    overrides.add(
        pause(Scope.ALL, of="all"),
        pause(Scope.SCALE_DOWN, of="down", name="of-kubectl"),
        request(of="held"),
        pause(of="past", seconds=-1),
    )
    assert names(client.get(LIST, params={"paused": "true"})) == ["all", "down"]
    assert names(client.get(LIST, params={"paused": "false"})) == ["free", "held", "past"]


@pytest.mark.parametrize(
    "token",
    ["", "x", "%%%", "AAAA", "W10", "bnVsbA", "WyJzZXZlcml0eSIsMWU5OTksIiJd", "é", "A" * 2000],
)
def test_a_page_token_that_nobody_made_is_400(client, token):
    answer = client.get(LIST, params={"continue": token})
    assert answer.status_code == 400
    assert answer.json()["type"] == "urn:dependency-watchdog:problem:invalid-page-token"


def test_a_page_token_of_another_order_or_list_is_400(client, shoots):
    shoots.add(healthy("a"), healthy("b"))
    token = client.get(LIST, params={"limit": 1}).json()["metadata"]["continue"]
    assert names(client.get(LIST, params={"continue": token})) == ["b"]
    assert client.get(LIST, params={"continue": token, "sort": "name"}).status_code == 400
    assert client.get(f"{LIST}/a/nodes", params={"continue": token}).status_code == 400


def some_of_each(fakes):
    """Three and more items in each list; of those that are sorted by a time, three have the same."""
    names = [f"shoot--{n}" for n in range(5)]
    fakes.shoots.add(*map(healthy, [NAMESPACE, *names]))
    fakes.resources.known[NAMESPACE] = {KCM: workload(KCM)}
    for number, name in enumerate(names):
        fakes.shoots.past.note(ScalingNotice(NAMESPACE, NOW + number, "Reason", name))
        fakes.audit.note(attempt(name))
        fakes.scaling_runs.add(run(name, namespace=name, created=NOW - number // 3))
        key = ServiceKey(name, "kube-apiserver")
        fakes.weeders.add(service(recovery(key, NOW - number // 3), key=key))
        fakes.overrides.add(
            *(pause(of=of, name=name, seconds=60 + number // 3) for of in (NAMESPACE, HOME))
        )


@pytest.mark.parametrize(
    "path",
    [
        LIST,
        *(f"{LIST}/{NAMESPACE}/{part}" for part in ("nodes", "history", "pauses", "resources")),
        *(f"/api/v1/{part}" for part in ("operations", "pauses", "weeders", "audit")),
    ],
)
def test_the_pages_of_each_list_follow_one_another_in_its_order(client, process, path, fakes):
    process.loops = tuple(Loop)
    some_of_each(fakes)
    whole = client.get(path).json()
    found: list[object] = []
    token = None
    while not found or token is not None:
        answer = client.get(path, params={"limit": 2} | ({"continue": token} if token else {}))
        page = answer.json()
        found += page["items"]
        token = page["metadata"]["continue"]
    assert found == whole["items"]
    assert len(found) == whole["metadata"]["total"] >= 3
    assert client.get(path, params={"continue": "x"}).status_code == 400


# Items that stay, come, go and move between the pages.

NAMES = st.text("abcde", min_size=1, max_size=3)
RANKS = st.floats(-1e9, 1e9)


@settings(max_examples=60, deadline=None)
@given(
    stays=st.dictionaries(NAMES, RANKS, max_size=20),
    others=st.lists(st.dictionaries(NAMES, RANKS, max_size=10), max_size=30),
    limit=st.integers(1, 7),
)
def test_an_item_that_keeps_its_place_is_returned_exactly_once(stays, others, limit):
    found, token, round_ = [], None, 0
    while round_ == 0 or token is not None:
        passing = others[round_ % len(others)] if others else {}
        items = list({**passing, **stays}.items())
        page = cut(
            items,
            lambda item: PageKey(item[1], item[0]),
            "order",
            PageQuery(limit=limit, token=token),
        )
        found += [name for name, rank in page.items if stays.get(name) == rank]
        assert page.metadata.total == len(items)
        token, round_ = page.metadata.continue_, round_ + 1
    assert sorted(found) == sorted(stays)


@given(st.text(max_size=60))
def test_any_text_is_a_refused_token_or_an_empty_page(text):
    try:
        page: ListPage[str] = cut([], lambda _: PageKey(0.0, ""), "order", PageQuery(token=text))
    except Problem:
        return
    assert page.items == []


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8"), max_size=30),
)
def test_a_token_gives_back_its_key_to_the_bit(rank, name):
    items = [(rank, name), (rank, name + "z")]
    first = cut(items, lambda item: PageKey(*item), "order", PageQuery(limit=1))
    following = PageQuery(limit=1, token=first.metadata.continue_)
    second = cut(items, lambda item: PageKey(*item), "order", following)
    assert [*first.items, *second.items] == items
    assert second.metadata.continue_ is None


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/shoots"),
        ("GET", f"/api/v1/shoots/{NAMESPACE}"),
        ("DELETE", f"/api/v1/shoots/{NAMESPACE}/pause"),
    ],
)
def test_before_the_seed_is_listed_nobody_is_told_that_a_shoot_is_not_there(
    client, shoots, method, path
):
    shoots.listed = False
    answer = client.request(method, path)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert answer.json()["type"] == "urn:dependency-watchdog:problem:not-listed"
    assert client.get("/api/v1/status").status_code == 200


def items(client):
    return {each["namespace"]: each for each in client.get(LIST).json()["items"]}


@pytest.fixture
def full(shoots, endpoints):
    endpoints.found["shoot--b"] = (endpoint(),)
    shoots.add(healthy("shoot--a"), protected("shoot--b"), not_probed("shoot--c"))
    return shoots


def test_each_list_says_what_each_shoot_alone_says_whatever_has_changed(client, full, overrides):
    probed = replace(healthy("shoot--a"), probes=99, last_probe=NOW + 9)
    paused = pause(Scope.SCALE_DOWN, of="shoot--a")
    for change in (
        lambda: None,
        lambda: full.add(probed),
        lambda: overrides.add(paused),
        overrides.clear,
    ):
        change()
        found = items(client)
        for name in full.known:
            assert found[name] == client.get(f"{LIST}/{name}").json()


async def test_others_have_turns_while_a_list_is_drawn_and_a_shoot_that_goes_meanwhile_is_left_out():
    known = FakeShoots()
    known.add(*(healthy(f"shoot--{number:03}") for number in range(120)))
    prober = context(known).prober
    assert prober is not None
    listing = asyncio.ensure_future(list_shoots(prober, ShootQuery(limit=500)))
    await asyncio.sleep(0)
    assert not listing.done()
    del known.known["shoot--119"]
    found = json.loads(bytes((await listing).body))["items"]
    assert [each["namespace"] for each in found] == [f"shoot--{number:03}" for number in range(119)]


# What of a shoot is an event: all but what may change with each probe and each run of an endpoint probe.


def drawn(status=None, views=None, gates=None, by=None):
    found = Endpoints(
        (endpoint(),) if views is None else views, (gate(),) if gates is None else gates
    )
    return (RenderedShoots() if by is None else by).shoot(
        status or healthy(), POLICY, EffectiveOverrides(), found
    )


def test_what_is_the_same_is_not_drawn_again():
    rendered = RenderedShoots()
    first = drawn(by=rendered)
    assert drawn(by=rendered) is first
    assert drawn(replace(healthy(), state=ShootState.SUSPECT), by=rendered) != first


@pytest.mark.parametrize(
    "change",
    [
        {"state": ShootState.SUSPECT},
        {"message": "other"},
        {"reason": "Other"},
        {"failures": 1},
        {"conditions": ()},
        {"tally": None},
        {"since": NOW - 5},
        {"resources": {KCM: workload(KCM, 0)}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_each_field_of_a_shoot_is_eventful(change):
    assert drawn(replace(healthy(), **change)) != drawn()


@pytest.mark.parametrize(
    "change",
    [
        {"result": CachedResult.FAILURE},
        {"counted": False},
        {"since": NOW - 1},
        {"target": container("etcd-main-0")},
        {"waiting": Waiting.HELD},
        {"gate": GateReason.FAILING},
    ],
    ids=lambda change: next(iter(change)),
)
def test_so_is_each_result_of_an_endpoint_probe(change):
    assert drawn(views=(endpoint(**change),)) != drawn()


def test_so_are_targets_that_come_and_go_and_a_gate_that_closes():
    kinds = [
        drawn(),
        drawn(views=(endpoint(), endpoint("etcd", container("etcd-main-0")))),
        drawn(views=()),
        drawn(gates=(gate(reason=GateReason.FAILING),)),
    ]
    assert len({each.digest for each in kinds}) == len(kinds)


def test_what_may_change_with_each_probe_is_none():
    later = replace(healthy(), last_probe=NOW, next_probe=NOW + 30, read_at=NOW)
    again = replace(later, probes=900, probe_seconds=0.5)
    run_ = endpoint(last_run=NOW, run=99, last_outcome=ProbeOutcome.ERROR, message="in 7 ms")
    found = drawn(again, (run_,), (gate(message="in 7 ms"),))
    assert found == drawn()
    assert found.json != drawn().json


def test_shoots_that_are_gone_are_forgotten():
    rendered = RenderedShoots()
    for number in range(3):
        rendered.shoot(healthy(f"shoot--{number}"), POLICY, NOTHING)
    rendered.keep([healthy("shoot--1").summary, healthy("shoot--new").summary])
    assert len(rendered) == 1
    rendered.keep([])
    assert len(rendered) == 0
