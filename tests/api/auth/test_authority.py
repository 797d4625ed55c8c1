"""What callers may do: by role, and by what the seed says; and how a no is worded."""

import asyncio

import pytest

from app.api.auth.authorization import ByRole, BySeed, Call
from app.api.problems import Problem
from app.core.model.callers import Caller, Role
from tests.api.auth.conftest import ALICE

SHOOT = "shoot--acme--prod"


async def allows(authority, caller, call, namespace=SHOOT):
    try:
        await authority.check(caller, call, namespace)
    except Problem as problem:
        if problem.kind.status != 403:
            raise
        return False
    return True


@pytest.fixture
def by_role(decisions):
    return ByRole(decisions)


@pytest.fixture
def by_seed(reviews, decisions):
    return BySeed(reviews, decisions)


async def test_without_a_role_nothing_is_allowed(by_role):
    assert not any([await allows(by_role, Caller("x"), call) for call in Call])


def test_what_concerns_all_shoots_and_force_are_rights_in_the_watchdogs_namespace():
    found = {each for each in Call if each.at_home}
    assert found == {Call.PAUSE_ALL, Call.CHANGE_PAUSE_ALL, Call.RESUME_ALL, Call.FORCE_SCALE}


@pytest.mark.parametrize("call", [Call.LIST, Call.PAUSE], ids=["read", "write"])
async def test_a_yes_is_remembered_for_reads_and_not_for_writes(by_seed, reviewer, call):
    reviewer.rights.add(("alice", call.access(SHOOT)))
    assert await allows(by_seed, ALICE, call)
    reviewer.rights.clear()
    assert await allows(by_seed, ALICE, call) is not call.writes


async def test_a_check_during_a_long_answer_takes_no_recent_yes_unless_the_seed_is_away(
    by_seed, reviewer
):
    reviewer.rights.add(("alice", Call.LIST.access()))
    await by_seed.check(ALICE, Call.LIST)
    reviewer.away()
    await asyncio.sleep(240)
    await by_seed.check(ALICE, Call.LIST, again=True)
    reviewer.mend()
    await asyncio.sleep(60)
    await by_seed.check(ALICE, Call.LIST)
    reviewer.rights.clear()
    await by_seed.check(ALICE, Call.LIST)
    with pytest.raises(Problem, match="may not list shoots"):
        await by_seed.check(ALICE, Call.LIST, again=True)


async def test_a_role_is_worth_nothing_where_the_seed_decides(by_seed):
    assert not await allows(by_seed, Caller("x", Role.ADMIN), Call.LIST, "")


async def refusal(authority, caller, call, namespace) -> Problem:
    with pytest.raises(Problem) as caught:
        await authority.check(caller, call, namespace)
    return caught.value


async def test_a_no_of_the_seed_says_who_may_not_do_what_and_where(by_seed):
    found = await refusal(by_seed, ALICE, Call.SCALE, SHOOT)
    assert found.detail == (
        "alice may not create scalerequests (dependency-watchdog.gardener.cloud) in shoot--acme--prod: "
        "the seed's RBAC does not allow it"
    )
    assert found.extra == {"verb": "create", "resource": "scalerequests", "namespace": SHOOT}
    assert "in all namespaces" in (await refusal(by_seed, ALICE, Call.LIST, "")).detail


async def test_a_no_of_a_role_says_which_one_is_needed(by_role):
    found = await refusal(by_role, Caller("vera", Role.VIEWER), Call.PAUSE, SHOOT)
    assert found.detail == (
        "vera may not create pauses (dependency-watchdog.gardener.cloud) in shoot--acme--prod: "
        "that needs the role operator, but the caller is viewer"
    )
    assert "the caller has none" in (await refusal(by_role, Caller("x"), Call.LIST, "")).detail


@pytest.mark.parametrize("namespace", ["Shoot", "a/b", "x" * 64, "a\nb", "-a", "\u00e4"])
async def test_of_what_can_be_no_namespace_nobody_is_asked(by_seed, reviewer, namespace):
    found = await refusal(by_seed, ALICE, Call.READ_SHOOT, namespace)
    assert (found.kind.status, reviewer.asked) == (404, [])
    assert namespace not in found.detail
