"""Who a caller is and what he may do: the seed's word on it, with ServiceAccounts, audiences and RBAC."""

from dataclasses import replace
from functools import partial

import pytest

from app.core.errors import Forbidden
from app.core.model.callers import AUDIENCE, Access, Caller
from tests.contract.arena import REAL_TIME
from tests.contract.reviewing import OTHER

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


@pytest.mark.parametrize("token", ["", "nonsense", "a.b.c", "ü", "x" * 8000])
async def test_what_is_no_token_is_nobody_s(reviewing, token):
    assert await reviewing.reviewer.authenticate(token) is None


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


async def test_a_group_has_what_was_granted_to_it(reviewing):
    for group, expected in (("system:masters", True), ("others", False)):
        caller = Caller("nobody in particular", groups=(group,))
        assert await reviewing.reviewer.allowed(caller, Access("get", "shoots")) is expected


@pytest.mark.parametrize("what", ["tokenreviews", "subjectaccessreviews"])
async def test_who_may_not_ask_is_told_so_without_the_token(reviewing, what):
    token = await reviewing.token()
    caller = await reviewing.reviewer.authenticate(token)
    asks = {
        "tokenreviews": partial(reviewing.reviewer.authenticate, token),
        "subjectaccessreviews": partial(
            reviewing.reviewer.allowed, caller, Access("get", "shoots")
        ),
    }
    async with reviewing.forbidden(what):
        with pytest.raises(Forbidden) as caught:
            await asks[what]()
    assert f"create {what}" in str(caught.value)
    assert token not in str(caught.value)
