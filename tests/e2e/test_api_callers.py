"""Who may call: ServiceAccounts, tokens of `kubectl create token`, and the roles of the documentation."""

import asyncio
from dataclasses import dataclass

import aiohttp
import pytest

from app.api.auth.authorization import Call
from app.core.model.callers import AUDIENCE, Role
from tests.e2e import apirights
from tests.e2e.apiclient import Answer, ApiClient
from tests.e2e.apirights import Callers
from tests.e2e.canaries import assert_nothing_secret_was_told
from tests.e2e.objects import CA, Json
from tests.e2e.parallel import scenario
from tests.e2e.people import Kubectl
from tests.e2e.processes import eventually, free_port
from tests.e2e.program import Program, quick
from tests.e2e.stage import Stage
from tests.support.certs import Authority

NOBODY = "nobody"
WHY: Json = {"reason": "load test"}
FORCED: Json = {**WHY, "force": True}  # shoots of other scenarios may be protected at the time
IGNORED = f"shoots/NAMESPACE/resources/Deployment/{CA}/ignore-scaling"


@dataclass(frozen=True, slots=True)
class Row:
    """One call of the table "Who may call"; NAMESPACE is the shoot's."""

    call: Call
    method: str
    path: str
    status: int
    """Of the answer to who may."""
    body: Json | None = None


# Some of each role; tests/contract/test_reviews.py has the rights of all, tests/api/auth/test_table.py the calls.
ROWS = [
    Row(Call.READ_SHOOT, "GET", "shoots/NAMESPACE", 200),
    Row(Call.LIST, "GET", "/metrics", 200),
    Row(Call.PROBE, "POST", "shoots/NAMESPACE/probe", 202),
    Row(Call.PAUSE, "PUT", "shoots/NAMESPACE/pause", 200, WHY),
    Row(Call.RESUME, "DELETE", "shoots/NAMESPACE/pause", 204),
    Row(Call.IGNORE, "PUT", IGNORED, 200, WHY),
    Row(Call.UNIGNORE, "DELETE", IGNORED, 200),
    Row(Call.PAUSE_ALL, "PUT", "pause", 200, FORCED),
    Row(Call.RESUME_ALL, "DELETE", "pause", 204),
    Row(
        Call.SCALE,
        "POST",
        "shoots/NAMESPACE/scale",
        200,
        {**WHY, "direction": "down", "dryRun": True},
    ),
]


async def asked(client: ApiClient, row: Row, namespace: str) -> Answer:
    """The answer; one that says "too many at once" is waited out."""
    while True:
        answer = await client.call(row.method, row.path.replace("NAMESPACE", namespace), row.body)
        if answer.status != 429:
            return answer
        await asyncio.sleep(float(answer.headers["Retry-After"]))


def may(role: str, row: Row) -> bool:
    """As the table has it."""
    ranks = [NOBODY, *Role]
    return ranks.index(role) >= ranks.index(row.call.role)


def check(role: str, row: Row, answer: Answer, namespace: str, home: str) -> None:
    what = f"{role}: {row.method} {row.path}: {answer}"
    if may(role, row):
        assert answer.status == row.status, what
        return
    assert (answer.status, answer.problem) == (403, "forbidden"), what
    asked_for = (answer.body["verb"], answer.body["resource"])
    assert asked_for == (row.call.verb, row.call.resource), what
    inside = namespace if "NAMESPACE" in row.path else ""
    assert answer.body["namespace"] == (home if row.call.at_home else inside), what


class Serving:
    """The certificate of a stage's program, and how its API is reached: through TLS, by those whom the seed knows."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.authority = Authority.create(f"api-ca-{stage.number:02}")
        pair = self.authority.server()
        self.key = pair.key
        self._files = {"tls_cert_file": pair.certificate, "tls_private_key_file": pair.key}

    async def leader(self) -> Program:
        """An instance that asks the seed who calls, once it leads; its `api` is that of somebody without a token."""
        where, flags = f"127.0.0.1:{free_port()}", {}
        for flag, content in self._files.items():
            path = self.stage.folder / f"{self.stage.garden}-{flag}"
            path.touch(mode=0o600)
            path.write_bytes(content)
            flags[flag] = str(path)
        made = await self.stage.prepare(
            quick(), auth_mode="kubernetes", api_bind_addr=where, **flags
        )
        made.api = ApiClient(f"https://{where}", ca=self.authority.pem)
        await made.start()
        await eventually(made.leads, f"{made.name} leads", within=20)
        return made


class Crowd:
    """Callers of every role; an operator looks after one control plane, others do so everywhere."""

    def __init__(self, stage: Stage, serving: Serving) -> None:
        self.stage, self.serving = stage, serving
        self.kubectl = Kubectl(stage, stage.garden)
        self.callers = Callers(stage)
        self.tokens: list[str] = []

    async def begin(self) -> None:
        await self.callers.begin()
        for name in (NOBODY, *Role):
            await self.callers.add(str(name))
        await self.callers.everywhere(Role.VIEWER, "dependency-watchdog-viewer")
        await self.callers.everywhere(Role.OPERATOR, "dependency-watchdog-viewer")
        await self.callers.everywhere(Role.ADMIN, "dependency-watchdog-admin")
        here = self.stage.shoot.namespace
        await self.callers.inside(Role.OPERATOR, "dependency-watchdog-operator", here)

    async def client(
        self, prober: Program, name: str, audience: str | None = AUDIENCE
    ) -> ApiClient:
        token = await self.kubectl.token(name, audience)
        self.tokens.append(token)
        return prober.api.as_caller(token)

    async def end(self) -> None:
        await assert_nothing_secret_was_told(self.stage, *self.tokens, keys=[self.serving.key])


async def crowded(stage: Stage) -> tuple[Crowd, Program]:
    await apirights.furnish(stage)
    await stage.shoot.build(nodes=3, grace=16, duration=16)
    crowd = Crowd(stage, Serving(stage))
    prober = await crowd.serving.leader()
    await crowd.begin()
    await until_healthy(await crowd.client(prober, Role.ADMIN), stage.shoot.namespace)
    return crowd, prober


async def until_healthy(client: ApiClient, namespace: str) -> None:
    async def is_so() -> bool:
        answer = await client.get(f"shoots/{namespace}")
        return bool(answer.body.get("state") == "Healthy")

    await eventually(is_so, "the shoot is healthy", within=40, every=0.25)


@scenario()
async def test_each_call_needs_the_right_that_the_table_names(stage: Stage) -> None:
    crowd, prober = await crowded(stage)
    here = stage.shoot.namespace
    admin = await crowd.client(prober, Role.ADMIN)
    for role in (NOBODY, *Role):
        client = await crowd.client(prober, role)
        for row in ROWS:
            check(role, row, await asked(client, row, here), here, stage.garden)
    operator = await crowd.client(prober, Role.OPERATOR)
    elsewhere = await operator.put("shoots/shoot--e2e--other/pause", WHY)
    assert (elsewhere.status, elsewhere.body["namespace"]) == (403, "shoot--e2e--other")
    assert {each.name for each in stage.writes()} == {CA}, "ignore-scaling, of one"
    assert all("spec" not in each.body for each in stage.writes())
    await who_did_it_is_known(stage, admin)
    await a_token_that_was_not_made_for_us_is_nobody_s(stage, crowd, prober)
    await crowd.end()


async def who_did_it_is_known(stage: Stage, admin: ApiClient) -> None:
    """Refused and done, with the names that the seed has for them."""
    records = (await admin.get("audit?limit=500")).body["items"]
    # of one that was put off as too many at once, nobody was asked who he is
    names = {each["caller"] for each in records if each["status"] != 429}
    whole = f"system:serviceaccount:{stage.garden}:"
    assert names == {whole + str(each) for each in (NOBODY, *Role)}
    assert {200, 202, 204, 403} <= {each["status"] for each in records}


async def a_token_that_was_not_made_for_us_is_nobody_s(
    stage: Stage, crowd: Crowd, prober: Program
) -> None:
    for audience in (None, "somebody-else"):
        other = await crowd.client(prober, Role.ADMIN, audience)
        await is_unknown(other)
    for token in (None, "nonsense", crowd.tokens[0][:-6] + "AAAAAA"):
        await is_unknown(prober.api.as_caller(token))
    assert await prober.is_ready()
    plain = ApiClient(prober.api.url.replace("https", "http"))
    with pytest.raises(aiohttp.ClientError):
        await plain.get("status")
    async with stage.seed.api.as_user(crowd.tokens[0]) as at_the_seed:
        assert await at_the_seed.refusal("GET", "/api/v1/namespaces") == 401, "worth nothing there"


async def is_unknown(client: ApiClient) -> None:
    reads = [await client.get(each) for each in ("status", "/openapi.json", "/metrics")]
    for answer in (*reads, await client.put("pause", WHY)):
        assert (answer.status, answer.problem) == (401, "unauthenticated")
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert (await client.get("/livez")).status == 200
