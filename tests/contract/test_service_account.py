"""`dwd --service-account`: a token that the operator's kubectl makes is one that the API takes."""

import json
import sys

import pytest

from app.cli.kubectl import Kubectl
from app.cli.problems import CommandFailed, Exit
from app.cli.tokens import MintedTokens
from app.core.clock import Clock
from app.core.config.values import NamespacedName
from tests.contract.arena import REAL_ALONE, REAL_TIME
from tests.e2e import objects

# a child is begun: what the standard library does there is not ours
pytestmark = [*REAL_TIME, REAL_ALONE, pytest.mark.blocking]

ACCOUNT = "dwd-operator"


@pytest.fixture
def headers(wire, arena, tmp_path, binary):
    """Makes the ServiceAccount, and a token of it with the kubeconfig of this user."""

    async def make(user, *, plugin=False):
        path = f"/api/v1/namespaces/{arena.namespace}/serviceaccounts"
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}}
        assert (await wire.ask("POST", path, body)).status == 201
        config = json.loads(objects.kubeconfig("seed", arena.adapter.url, arena.ca.encode(), user))
        if plugin:
            config["users"][0]["user"] = login(tmp_path, user)
        (tmp_path / "config").write_text(json.dumps(config))
        environ = {"KUBECONFIG": str(tmp_path / "config"), "HOME": str(tmp_path), "PATH": ""}
        account = NamespacedName(arena.namespace, ACCOUNT)
        kubectl = Kubectl(str(binary), environ)
        return await MintedTokens(account, kubectl, Clock.system(), 10.0).headers()

    return make


def login(folder, token):
    """A user who logs in through a plugin, which has something to say."""
    version = "client.authentication.k8s.io/v1"
    answer = {"apiVersion": version, "kind": "ExecCredential", "status": {"token": token}}
    script = folder / "login"
    script.write_text(
        f"#!{sys.executable}\nimport sys\nsys.stderr.write('log in there\\n')\nprint({json.dumps(answer)!r})\n"
    )
    script.chmod(0o755)
    plugin = {"apiVersion": version, "command": str(script), "interactiveMode": "IfAvailable"}
    return {"exec": plugin}


@pytest.mark.parametrize("plugin", [False, True])
async def test_the_token_is_the_accounts_for_the_api_alone(
    reviewing, arena, headers, plugin, capsys
):
    found = await headers(arena.admin_token, plugin=plugin)
    token = found["Authorization"].removeprefix("Bearer ")
    caller = await reviewing.reviewer.authenticate(token)
    assert caller.name == f"system:serviceaccount:{arena.namespace}:{ACCOUNT}"
    assert await reviewing.reviewer.authenticate(token, audience=None) is None
    assert found["Dwd-Claimed-User"], "the seed knows the operator by some name"
    assert ("log in there" in capsys.readouterr().err) is plugin


async def test_who_may_not_make_tokens_of_it_is_told_so_with_their_name(arena, headers):
    with pytest.raises(CommandFailed, match="may not make tokens of the ServiceAccount") as caught:
        await headers(arena.token)
    assert caught.value.code is Exit.NOT_ALLOWED
    assert not str(caught.value).startswith("you may"), "the seed has said who it is"
    assert "forbidden" in str(caught.value)


async def test_who_the_seed_does_not_know_is_told_so(headers):
    with pytest.raises(CommandFailed, match="the seed does not know you") as caught:
        await headers("nobody")
    assert caught.value.code is Exit.NOT_ALLOWED
