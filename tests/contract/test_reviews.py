"""Who a caller is and what he may do: a real seed's word on it, with ServiceAccounts, audiences and RBAC."""

import pytest

from app.api.auth.authorization import Call
from app.core.kube.reviews import Reviewer
from app.core.model.callers import AUDIENCE, Access, Caller, Role
from tests.contract.arena import REAL_ALONE, REAL_TIME
from tests.e2e.apirights import documented_roles
from tests.e2e.processes import eventually

pytestmark = REAL_TIME


@REAL_ALONE
async def test_a_token_is_its_owner_s_for_its_audience_alone_and_while_the_owner_is_there(
    reviewing,
):
    authenticate = reviewing.reviewer.authenticate
    for made_for in (AUDIENCE, "somebody-else", None):
        token = await reviewing.token(made_for)
        for audience in (AUDIENCE, None):
            caller = await authenticate(token, audience=audience)
            assert (caller and caller.name) == (reviewing.user if audience == made_for else None)
            if caller is not None:
                assert {"system:serviceaccounts", "system:authenticated"} <= set(caller.groups)
                assert (bool(caller.uid), caller.role) == (True, None)
    token = await reviewing.token()
    assert await authenticate(token[:-8] + "AAAAAAAA") is None, "it was changed"
    await reviewing.revoke()
    assert await authenticate(token) is None


@REAL_ALONE
@pytest.mark.parametrize("role", [None, *Role])
async def test_a_documented_role_allows_its_calls_and_no_others(arena, reviewing, role):
    """An operator looks after one control plane; all others may what they may everywhere."""
    here, home = arena.namespace, arena.garden
    if role is not None:
        rules = documented_roles()[f"dependency-watchdog-{role}"]["rules"]
        await reviewing.bind(rules, here if role is Role.OPERATOR else "")
    caller, rank = Caller(reviewing.user), [None, *Role].index

    def may(call, namespace):
        everywhere = role is not Role.OPERATOR or namespace == here
        return everywhere and rank(role) >= rank(call.role)

    expected = {
        (call, place): may(call, place)
        for call in Call
        for place in ([home] if call.at_home else [here, "shoot--other", ""])
    }

    async def as_documented():
        found = {
            (call, place): await reviewing.reviewer.allowed(caller, call.access(place))
            for call, place in expected
        }
        return found == expected

    await eventually(as_documented, f"{role} may what it should", within=10, every=0.1)


ALLOWED = {
    Access("update", "pauses", "here"): True,
    Access("update", "pauses", "elsewhere"): False,
    Access("update", "pauses"): False,
    Access("delete", "pauses", "here"): False,
    Access("update", "pauses/status", "here"): False,
    Access("get", "shoots", "here"): True,
    Access("get", "shoots"): True,
    Access("list", "shoots"): False,
    Access("get", "", path="/metrics"): True,
    Access("get", "", path="/debug"): False,
    Access("get", "metrics"): False,
}
"""Of who may update pauses `here`, get shoots everywhere, and get the path /metrics."""


@pytest.mark.parametrize("where", ["http"], indirect=True)
async def test_the_simulation_knows_audiences_and_allows_what_was_granted_and_nothing_else(arena):
    identities, reviewer = arena.world.identities, Reviewer(arena.adapter.api)
    identities.add("a-token", "jane", uid="1")
    assert await reviewer.authenticate("a-token", audience=None) is None
    caller = await reviewer.authenticate("a-token")
    assert caller is not None
    assert caller.name == "jane"
    identities.grant("jane", "update", "pauses", "here")
    identities.grant("jane", "get", "shoots")
    identities.grant("jane", "get", "/metrics", group="")
    assert {each: await reviewer.allowed(caller, each) for each in ALLOWED} == ALLOWED
    identities.forget("a-token")
    assert await reviewer.authenticate("a-token") is None
