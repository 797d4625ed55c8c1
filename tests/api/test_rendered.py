"""Shoots that are drawn once for all who look: what they say is never older than what one shoot says."""

from dataclasses import replace

import pytest

from app.api.context import RenderedShoots
from app.core.model.overrides import NOTHING, EffectiveOverrides
from app.core.model.probing import ShootState
from tests.api.facts import NOW, POLICY, healthy, not_probed, protected

LIST = "/api/v1/shoots"


def items(client):
    return {each["namespace"]: each for each in client.get(LIST).json()["items"]}


@pytest.fixture
def full(shoots):
    shoots.add(healthy("shoot--a"), protected("shoot--b"), not_probed("shoot--c"))
    return shoots


def test_an_item_of_the_list_says_what_the_shoot_alone_says(client, full):
    for _ in range(2):
        found = items(client)
        for name in full.known:
            assert found[name] == client.get(f"{LIST}/{name}").json()


def test_the_next_probe_is_in_the_next_list(client, full):
    assert items(client)["shoot--a"]["probe"]["count"] == healthy().probes
    full.add(replace(healthy("shoot--a"), probes=99, last_probe=NOW + 9))
    found = items(client)["shoot--a"]["probe"]
    assert (found["count"], found["lastTime"]) == (99, "2027-01-15T08:00:09Z")


def test_a_pause_and_its_end_are_in_the_next_list(client, full):
    assert items(client)["shoot--a"]["pause"] is None
    order = {"reason": "hands off", "scope": "scaleDown"}
    assert client.put(f"{LIST}/shoot--a/pause", json=order).status_code == 200
    assert items(client)["shoot--a"]["pause"]["reason"] == "hands off"
    assert items(client)["shoot--b"]["pause"] is None
    assert client.delete(f"{LIST}/shoot--a/pause").status_code == 204
    assert items(client)["shoot--a"]["pause"] is None


def test_what_is_the_same_is_not_drawn_again():
    rendered = RenderedShoots()
    first = rendered.shoot(healthy(), POLICY, NOTHING)
    assert rendered.shoot(healthy(), POLICY, EffectiveOverrides()) is first
    assert rendered.shoot(replace(healthy(), state=ShootState.SUSPECT), POLICY, NOTHING) != first


def test_shoots_that_are_gone_are_forgotten():
    rendered = RenderedShoots()
    for number in range(3):
        rendered.shoot(healthy(f"shoot--{number}"), POLICY, NOTHING)
    left = [healthy("shoot--1").summary, healthy("shoot--new").summary]
    rendered.keep(left)
    assert len(rendered) == 1
    rendered.keep([])
    assert len(rendered) == 0
