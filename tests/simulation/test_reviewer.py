"""Callers of a simulated seed: tokens, audiences, rights."""

from typing import TYPE_CHECKING

import pytest

from app.core.errors import Forbidden, Unreachable
from app.core.model.callers import AUDIENCE, Access, Caller
from app.simulation.identities import API_SERVER, Right, SimulatedIdentities
from tests.simulation.worlds import about, simulated

if TYPE_CHECKING:
    from app.core.ports import Reviewer

JANE = Caller("jane", groups=("team", "system:authenticated"))
READ = Access("get", "shoots", "shoot--local--a")

in_a_world = simulated(
    reviewer=lambda world: world.reviewer, identities=lambda world: world.identities
)


@pytest.fixture
def known():
    identities = SimulatedIdentities()
    identities.add("ours", "jane", "team", uid="7", extra={"k": ("v",)})
    identities.add("server's", "jane", audiences=(API_SERVER,))
    identities.add("both", "jane", audiences=(AUDIENCE, API_SERVER))
    return identities


@pytest.mark.parametrize(
    ("token", "audiences", "common"),
    [
        ("ours", (AUDIENCE,), (AUDIENCE,)),
        ("ours", ("else", AUDIENCE), (AUDIENCE,)),
        ("ours", ("else",), None),
        ("ours", (), None),
        ("server's", (), (API_SERVER,)),
        ("server's", (AUDIENCE,), None),
        ("both", (), (API_SERVER,)),
        ("both", (AUDIENCE,), (AUDIENCE,)),
        ("nobody's", (AUDIENCE,), None),
        ("", (), None),
    ],
)
def test_a_token_is_good_for_its_audiences_alone(known, token, audiences, common):
    found = known.review(token, audiences)
    assert (found and found.audiences) == common


def test_an_owner_is_told_with_groups_uid_and_more(known):
    found = known.review("ours", (AUDIENCE,))
    assert (found.user, found.uid, found.extra) == ("jane", "7", {"k": ("v",)})
    assert found.groups == ("team", "system:authenticated")


def test_a_token_that_is_forgotten_is_nobody_s(known):
    known.forget("ours")
    known.forget("ours")
    assert known.review("ours", (AUDIENCE,)) is None


def asked(verb, resource, namespace="", group="dependency-watchdog.gardener.cloud"):
    return Right("", verb, resource, namespace, group)


@pytest.mark.parametrize("who", ["jane", "team"])
def test_a_right_in_a_namespace_is_none_elsewhere(known, who):
    known.grant(who, "update", "shoots/pause", "a")
    assert known.allows("jane", ("team",), asked("update", "shoots/pause", "a"))
    for other in (
        asked("update", "shoots/pause", "b"),
        asked("update", "shoots/pause"),
        asked("delete", "shoots/pause", "a"),
        asked("update", "shoots", "a"),
        asked("update", "shoots/pause", "a", "apps"),
    ):
        assert not known.allows("jane", ("team",), other)
    assert not known.allows("john", (), asked("update", "shoots/pause", "a"))
    known.revoke(who, "update", "shoots/pause", "a")
    assert not known.allows("jane", ("team",), asked("update", "shoots/pause", "a"))


def test_a_right_everywhere_is_one_in_each_namespace(known):
    known.grant("jane", "get", "shoots")
    assert known.allows("jane", (), asked("get", "shoots", "a"))
    assert known.allows("jane", (), asked("get", "shoots"))


def test_a_master_may_everything(known):
    assert known.allows("root", ("system:masters",), asked("delete", "shoots/scale", "a"))


@in_a_world
async def test_it_is_what_the_port_says(world):
    reviewer: Reviewer = world.reviewer
    assert await reviewer.authenticate("nobody's") is None


@in_a_world
async def test_a_caller_is_found_and_reviewed(reviewer, identities):
    identities.add("t", "jane", "team", uid="7", extra={"k": ("v",)})
    caller = await reviewer.authenticate("t")
    assert caller == Caller("jane", uid="7", groups=JANE.groups, extra={"k": ("v",)})
    assert await reviewer.authenticate("t", audience=None) is None
    assert not await reviewer.allowed(caller, READ)
    identities.grant("team", "get", "shoots")
    assert await reviewer.allowed(caller, READ)


@in_a_world
async def test_a_path_is_allowed_as_a_path(reviewer, identities):
    identities.grant("jane", "get", "/metrics", group="")
    assert await reviewer.allowed(JANE, Access("get", "", path="/metrics"))
    assert not await reviewer.allowed(JANE, Access("get", "metrics"))


@in_a_world
async def test_reviews_are_counted(world, reviewer):
    await reviewer.authenticate("t")
    await reviewer.allowed(JANE, READ)
    assert world.requests.total(verb="create", what="tokenreviews") == 1
    assert world.requests.total(verb="create", what="subjectaccessreviews") == 1


@in_a_world
async def test_reviews_that_are_forbidden_are_refused(world, reviewer, identities):
    identities.add("t", "jane")
    with world.faults.reviews_forbidden("subjectaccessreviews"):
        assert await reviewer.authenticate("t") is not None
        with pytest.raises(Forbidden):
            await reviewer.allowed(JANE, READ)
    with world.faults.reviews_forbidden(), pytest.raises(Forbidden):
        await reviewer.authenticate("t")
    assert await reviewer.authenticate("t") is not None


@in_a_world
async def test_reviews_that_are_away_end_after_three_seconds(world, clock, reviewer):
    with world.faults.reviews_away("tokenreviews"):
        began = clock.now()
        with pytest.raises(Unreachable):
            await reviewer.authenticate("t")
        assert clock.now() == about(began + 3)
        assert not await reviewer.allowed(JANE, READ)
