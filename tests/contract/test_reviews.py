"""Who a caller is and what he may do: the seed's word on it, with ServiceAccounts, audiences and RBAC."""

import pytest

from app.core.errors import Forbidden
from app.core.model.callers import AUDIENCE, Access, Caller
from tests.contract.arena import REAL_TIME
from tests.contract.reviewing import OTHER

pytestmark = REAL_TIME


async def test_a_token_for_our_audience_is_its_owner_s(reviewing):
    caller = await reviewing.reviewer.authenticate(await reviewing.token())
    assert caller.name == reviewing.user
    assert {"system:serviceaccounts", "system:authenticated"} <= set(caller.groups)
    assert caller.uid
    assert caller.role is None


@pytest.mark.parametrize("made_for", [OTHER, None], ids=["another one", "the API server"])
async def test_a_token_for_another_audience_is_nobody_s(reviewing, made_for):
    assert await reviewing.reviewer.authenticate(await reviewing.token(made_for)) is None


@pytest.mark.parametrize("made_for", [OTHER, AUDIENCE])
async def test_one_that_was_not_made_for_the_api_server_is_nobody_s_there(reviewing, made_for):
    token = await reviewing.token(made_for)
    assert await reviewing.reviewer.authenticate(token, audience=None) is None


async def test_one_that_was_made_for_the_api_server_is_its_owner_s_there(reviewing):
    token = await reviewing.token(None)
    caller = await reviewing.reviewer.authenticate(token, audience=None)
    assert caller.name == reviewing.user


@pytest.mark.parametrize("token", ["", "nonsense", "a.b.c", "ü", "x" * 8000])
async def test_what_is_no_token_is_nobody_s(reviewing, token):
    assert await reviewing.reviewer.authenticate(token) is None


async def test_a_token_that_was_changed_is_nobody_s(reviewing):
    token = await reviewing.token()
    assert await reviewing.reviewer.authenticate(token[:-8] + "AAAAAAAA") is None


async def test_a_token_is_nobody_s_after_its_owner_is_gone(reviewing):
    token = await reviewing.token()
    assert await reviewing.reviewer.authenticate(token) is not None
    await reviewing.revoke()
    assert await reviewing.reviewer.authenticate(token) is None


async def test_nothing_is_allowed_that_was_not_granted(reviewing):
    caller = await reviewing.reviewer.authenticate(await reviewing.token())
    for access in (
        Access("get", "shoots", reviewing.namespace),
        Access("list", "shoots"),
        Access("update", "pauses", reviewing.namespace),
        Access("get", "", path="/metrics"),
    ):
        assert await reviewing.reviewer.allowed(caller, access) is False


async def test_what_was_granted_in_one_namespace_is_allowed_there_alone(reviewing):
    caller = await reviewing.reviewer.authenticate(await reviewing.token())
    here = reviewing.namespace
    await reviewing.grant("update", "pauses", here)
    allowed = {
        access: await reviewing.reviewer.allowed(caller, access)
        for access in (
            Access("update", "pauses", here),
            Access("update", "pauses", "shoot--other"),
            Access("update", "pauses"),
            Access("delete", "pauses", here),
            Access("update", "shoots", here),
            Access("update", "pauses/status", here),
        )
    }
    assert list(allowed.values()) == [True, False, False, False, False, False]


async def test_what_was_granted_everywhere_is_allowed_everywhere(reviewing):
    caller = await reviewing.reviewer.authenticate(await reviewing.token())
    await reviewing.grant("get", "shoots")
    assert await reviewing.reviewer.allowed(caller, Access("get", "shoots", reviewing.namespace))
    assert await reviewing.reviewer.allowed(caller, Access("get", "shoots"))
    assert not await reviewing.reviewer.allowed(caller, Access("list", "shoots"))


async def test_a_path_is_no_resource(reviewing):
    caller = await reviewing.reviewer.authenticate(await reviewing.token())
    await reviewing.grant("get", "/metrics")
    assert await reviewing.reviewer.allowed(caller, Access("get", "", path="/metrics"))
    assert not await reviewing.reviewer.allowed(caller, Access("get", "", path="/debug"))
    assert not await reviewing.reviewer.allowed(caller, Access("get", "metrics"))


async def test_a_group_has_what_was_granted_to_it(reviewing):
    assert await reviewing.reviewer.allowed(
        Caller("nobody in particular", groups=("system:masters",)), Access("get", "shoots")
    )
    assert not await reviewing.reviewer.allowed(
        Caller("nobody in particular", groups=("others",)), Access("get", "shoots")
    )


async def test_who_may_not_ask_who_somebody_is_is_told_so_without_the_token(reviewing):
    token = await reviewing.token()
    async with reviewing.forbidden("tokenreviews"):
        with pytest.raises(Forbidden) as caught:
            await reviewing.reviewer.authenticate(token)
    assert "create tokenreviews" in str(caught.value)
    assert token not in str(caught.value)


async def test_who_may_not_ask_what_somebody_may_is_told_so(reviewing):
    caller = await reviewing.reviewer.authenticate(await reviewing.token())
    async with reviewing.forbidden("subjectaccessreviews"):
        with pytest.raises(Forbidden) as caught:
            await reviewing.reviewer.allowed(caller, Access("get", "shoots"))
    assert "create subjectaccessreviews" in str(caught.value)
