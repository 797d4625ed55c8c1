"""Who a caller is and what he may do: the seed's word on it, with ServiceAccounts, audiences and RBAC."""

from dataclasses import replace

import pytest

from app.api.auth.authorization import Call
from app.core.model.callers import AUDIENCE, Access, Caller, Role
from tests.contract.arena import REAL_ALONE, REAL_TIME
from tests.contract.reviewing import OTHER
from tests.e2e.apirights import documented_roles
from tests.e2e.processes import eventually

pytestmark = REAL_TIME


@pytest.mark.parametrize(
    "made_for", [AUDIENCE, OTHER, None], ids=["us", "others", "the API server"]
)
async def test_a_token_is_its_owner_s_for_the_audience_that_it_was_made_for_alone(
    reviewing, made_for
):
    token = await reviewing.token(made_for)
    for audience in (AUDIENCE, None):
        caller = await reviewing.reviewer.authenticate(token, audience=audience)
        assert (caller and caller.name) == (reviewing.user if audience == made_for else None)
        if caller is not None:
            assert {"system:serviceaccounts", "system:authenticated"} <= set(caller.groups)
            assert (bool(caller.uid), caller.role) == (True, None)


async def test_what_is_no_token_is_nobody_s(reviewing):
    for token in ("", "nonsense", "a.b.c", "ü", "x" * 8000):
        assert await reviewing.reviewer.authenticate(token) is None, token


async def test_a_token_is_nobody_s_when_it_was_changed_and_when_its_owner_is_gone(reviewing):
    token = await reviewing.token()
    assert await reviewing.reviewer.authenticate(token[:-8] + "AAAAAAAA") is None
    assert await reviewing.reviewer.authenticate(token) is not None
    await reviewing.revoke()
    assert await reviewing.reviewer.authenticate(token) is None


HERE = "{here}"
METRICS = Access("get", "", path="/metrics")
GRANTS = {
    "nothing": (
        None,
        (),
        (
            *(Access("get", "shoots", HERE), Access("list", "shoots"), METRICS),
            Access("update", "pauses", HERE),
        ),
    ),
    "in one namespace": (
        ("update", "pauses", HERE),
        (Access("update", "pauses", HERE),),
        (
            *(Access("update", "pauses", "shoot--other"), Access("update", "pauses")),
            *(Access("delete", "pauses", HERE), Access("update", "shoots", HERE)),
            Access("update", "pauses/status", HERE),
        ),
    ),
    "everywhere": (
        ("get", "shoots", ""),
        (Access("get", "shoots", HERE), Access("get", "shoots")),
        (Access("list", "shoots"),),
    ),
    "a path": (
        ("get", "/metrics", ""),
        (METRICS,),
        (Access("get", "", path="/debug"), Access("get", "metrics")),
    ),
}
"""What is granted, what is allowed then, and what is not."""


@pytest.mark.parametrize("granted", GRANTS)
async def test_what_was_granted_is_allowed_and_nothing_else(reviewing, granted):
    grant, allowed, refused = GRANTS[granted]
    here = {HERE: reviewing.namespace}
    caller = await reviewing.reviewer.authenticate(await reviewing.token())
    if grant is not None:
        await reviewing.grant(*(here.get(each, each) for each in grant))
    for access in (*allowed, *refused):
        asked = replace(access, namespace=here.get(access.namespace, access.namespace))
        assert await reviewing.reviewer.allowed(caller, asked) is (access in allowed), asked


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
