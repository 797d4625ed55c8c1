"""`dwd --service-account`: a token that the seed makes for an operator's kubeconfig is one that the API takes."""

import pytest

from app.cli.problems import CommandFailed, Exit
from app.cli.service_account import minted_tokens
from app.core.clock import Clock
from app.core.config.client_settings import ShootsSettings
from app.core.config.values import NamespacedName
from tests.contract.arena import REAL_ALONE, REAL_TIME
from tests.e2e import objects

# kubernetes_asyncio reads its files in the loop that it is called in
pytestmark = [*REAL_TIME, REAL_ALONE, pytest.mark.blocking]

ACCOUNT = "dwd-operator"


@pytest.fixture
def headers(wire, arena, tmp_path):
    """Makes the ServiceAccount, and a token of it with the kubeconfig of this user."""

    async def make(user):
        path = f"/api/v1/namespaces/{arena.namespace}/serviceaccounts"
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}}
        assert (await wire.ask("POST", path, body)).status == 201
        config = tmp_path / "config"
        config.write_text(objects.kubeconfig("seed", arena.adapter.url, arena.ca.encode(), user))
        account = NamespacedName(arena.namespace, ACCOUNT)
        environ = {"KUBECONFIG": str(config)}
        return await minted_tokens(account, ShootsSettings(), environ, Clock.system()).headers()

    return make


async def test_the_token_is_the_accounts_for_the_api_alone(reviewing, arena, headers):
    found = await headers(arena.admin_token)
    token = found["Authorization"].removeprefix("Bearer ")
    caller = await reviewing.reviewer.authenticate(token)
    assert caller.name == f"system:serviceaccount:{arena.namespace}:{ACCOUNT}"
    assert await reviewing.reviewer.authenticate(token, audience=None) is None
    assert found["Dwd-Claimed-User"], "the seed knows the operator by some name"


async def test_who_may_not_make_tokens_of_it_is_told_so_with_their_name(arena, headers):
    with pytest.raises(CommandFailed, match="may not make tokens of the ServiceAccount") as caught:
        await headers(arena.token)
    assert caught.value.code is Exit.NOT_ALLOWED
    assert not str(caught.value).startswith("you may"), "the seed has said who it is"
    assert "forbidden" in str(caught.value)
