"""`dwd --service-account`: a token that the seed makes for an operator's kubeconfig is one that the API takes."""

import asyncio
from itertools import count

import pytest

from app.cli.problems import CommandFailed, Exit
from app.cli.service_account import minted_tokens
from app.core.clock import Clock
from app.core.config.client_settings import ShootsSettings
from app.core.config.values import NamespacedName
from tests.contract.arena import REAL_TIME
from tests.e2e import objects

# kubernetes_asyncio reads its files in the loop that it is called in
pytestmark = [*REAL_TIME, pytest.mark.blocking]

ACCOUNT = "dwd-operator"


@pytest.fixture
def headers(arena, tmp_path):
    """Makes a token with the kubeconfig of an administrator, or of somebody else."""

    numbers = count()

    async def make(name=ACCOUNT, token=None):
        mine = arena.admin_token if token is None else token
        path = tmp_path / f"config-{next(numbers)}"  # two may be made side by side
        path.write_text(objects.kubeconfig("seed", arena.proxy.url, arena.ca.encode(), mine))
        account = NamespacedName(arena.namespace, name)
        tokens = minted_tokens(account, ShootsSettings(), {"KUBECONFIG": str(path)}, Clock.system())
        return await tokens.headers()

    return make


@pytest.fixture
def made(wire, arena):
    """Makes the ServiceAccount."""

    async def make():
        path = f"/api/v1/namespaces/{arena.namespace}/serviceaccounts"
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}}
        assert (await wire.ask("POST", path, body)).status == 201

    return make


async def test_the_token_is_the_accounts_for_the_api_alone(reviewing, arena, headers, made):
    await made()
    found = await headers()
    token = found["Authorization"].removeprefix("Bearer ")
    caller = await reviewing.reviewer.authenticate(token)
    assert caller.name == f"system:serviceaccount:{arena.namespace}:{ACCOUNT}"
    assert await reviewing.reviewer.authenticate(token, audience=None) is None
    assert found["Dwd-Claimed-User"], "the seed knows the operator by some name"


async def test_an_account_that_is_not_there_is_said(headers):
    with pytest.raises(CommandFailed, match=r"there is no ServiceAccount .*/nobody") as caught:
        await headers("nobody")
    assert caught.value.code is Exit.NOT_FOUND


async def test_who_may_not_make_tokens_of_it_is_told_so_with_their_name(arena, headers, made):
    await made()
    with pytest.raises(CommandFailed, match="may not make tokens of the ServiceAccount") as caught:
        await headers(token=arena.token)
    assert caught.value.code is Exit.NOT_ALLOWED
    assert not str(caught.value).startswith("you may"), "the seed has said who it is"
    assert "forbidden" in str(caught.value)


async def test_whom_the_seed_does_not_know_is_told_so(headers):
    with pytest.raises(CommandFailed, match="the seed does not know you") as caught:
        await headers(token="nobody-s")
    assert caught.value.code is Exit.NOT_ALLOWED


async def test_side_by_side_they_are_made_alike(headers, made):
    await made()
    found = await asyncio.gather(headers(), headers())
    assert len({each["Dwd-Claimed-User"] for each in found}) == 1
