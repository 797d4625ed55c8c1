"""What a process gets of a real seed: which adapters, which rights, and where the leader is."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from app.commands import Help, parse
from app.core.kube.custom_objects import CustomObjects
from app.core.kube.leader_slice import LeaderAddress, LeaderAddressOff
from app.core.kube.reviews import Reviewer
from app.core.model.endpoints import EndpointProbeSpec, HttpGet, ProbeOutcome, TcpSocket
from app.core.model.names import LabelSelector, Operator, Requirement
from app.core.model.policy import ProberPolicy
from app.core.model.weeding import WeederPolicy
from app.realcluster import RealCluster
from app.service.parts import Core
from tests.core.handlers import targets
from tests.core.kube.server import FakeCredentials, serving, until

pytestmark = pytest.mark.looptime(False)

LEADER = ("--advertise-address=10.0.0.1", "--leader-endpointslice=dwd-weeder-leader")
OPEN = ("--auth-mode=kubernetes", "--allow-plain-http")
PAUSES = "/apis/dependency-watchdog.gardener.cloud/v1alpha1/pauses"


async def nothing(asked):
    """An API server of a seed that has nothing."""
    last = asked.path.rsplit("/", 1)[1]
    kind = {"pauses": "Pause", "endpointslices": "EndpointSlice"}.get(last)
    if kind is None or "watch" in asked.query:
        await asked.answer({"message": "no"}, 404)
    else:
        page = {"kind": f"{kind}List", "metadata": {"resourceVersion": "1"}, "items": []}
        await asked.answer(page)


@asynccontextmanager
async def cluster(what, *words):
    """The adapters of a process that is started with these words and has `what`; and the seed's server."""
    command = parse([*words], {})
    assert not isinstance(command, Help)
    async with serving(nothing) as server:
        core = Core.create()
        real = RealCluster(command.settings, core, FakeCredentials(server))
        what(real, command.settings)
        adapters = real.adapters()
        try:
            yield adapters, server
        finally:
            await adapters.end()
            await core.tasks.stop()
            await adapters.close()
            await asyncio.sleep(0.01)


def cluster_with(*flags):
    """Those of a weeder with these flags."""

    def weeder(real, _):
        real.with_weeder(WeederPolicy())

    return cluster(weeder, "weeder", "--config-file=weeder.yaml", *flags)


async def needed(*flags):
    async with cluster_with(*flags) as (adapters, _):
        assert adapters.rights is not None
        return {(each.verb, each.resource, each.name) for each in await adapters.rights.needed()}


async def test_pauses_and_reviews_are_there_and_scale_requests_with_the_prober_alone():
    async with cluster_with() as (adapters, _):
        assert isinstance(adapters.pauses, CustomObjects)
        assert adapters.requests is None
        assert isinstance(adapters.reviewer, Reviewer)


async def test_the_pauses_of_all_namespaces_are_watched_from_the_beginning():
    async with cluster_with() as (adapters, server):
        assert server.asked == []
        await adapters.begin()
        await until(lambda: PAUSES in server.paths())


async def test_what_the_watch_of_the_pauses_suffers_from_is_told():
    async with cluster_with() as (adapters, _):
        await adapters.begin()
        await until(lambda: "pauses" in adapters.troubles())


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ((), "not given"),
        (LEADER[:1], "not given"),
        (LEADER[1:], "not given"),
        (LEADER, "only this machine"),
        ((*LEADER, "--auth-mode=kubernetes"), "only this machine"),
        ((*LEADER, *OPEN, "--dry-run"), "dry run"),
    ],
    ids=str,
)
async def test_the_leader_s_address_is_off_where_it_makes_no_sense_or_is_not_known(flags, why):
    async with cluster_with(*flags) as (adapters, _):
        assert isinstance(adapters.leader, LeaderAddressOff)
        assert why in str(adapters.leader.off)


async def test_the_leader_s_address_is_where_its_api_is():
    async with cluster_with(*LEADER, *OPEN, "--api-bind-addr=:8443") as (adapters, server):
        assert isinstance(adapters.leader, LeaderAddress)
        assert (adapters.leader.address(), adapters.leader.off) == ("10.0.0.1:8443", None)
        await adapters.begin()
        slice_ = "/apis/discovery.k8s.io/v1/namespaces/garden/endpointslices/dwd-weeder-leader"
        await until(lambda: slice_ in server.paths())
        await until(lambda: adapters.leader.off is not None)


REVIEWS = {("create", "tokenreviews", ""), ("create", "subjectaccessreviews", "")}
SLICE = {(verb, "endpointslices", "dwd-weeder-leader") for verb in ("get", "update")}
DECIDED = {(verb, "pauses", "") for verb in ("get", "list", "watch")}


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((), set()),
        (("--metrics-auth",), REVIEWS),
        (("--auth-mode=kubernetes",), REVIEWS),
        (LEADER, set()),
        ((*LEADER, *OPEN), REVIEWS | SLICE),
    ],
    ids=lambda each: str(
        sorted(each)
    ),  # a set has no order, and workers have to agree on the names
)
async def test_rights_are_needed_where_they_are_used(flags, expected):
    found = await needed(*flags)
    assert found & (REVIEWS | SLICE) == expected
    assert found >= DECIDED


async def test_a_dry_run_needs_no_right_to_write():
    found = await needed("--dry-run", *OPEN, *LEADER)
    assert {verb for verb, resource, _ in found if resource != "pods"} == {
        *("get", "list", "watch", "create"),
    }
    assert {resource for verb, resource, _ in found if verb == "create"} == {
        "tokenreviews",
        "subjectaccessreviews",
    }


# What endpoint probes hold ends with the process.

ETCD = LabelSelector((Requirement("app", Operator.IN, frozenset({"etcd"})),))
PROBES = (
    EndpointProbeSpec("etcd", tcp_socket=TcpSocket(2379), pods=ETCD),
    EndpointProbeSpec("canary", http_get=HttpGet(80), host="127.0.0.1", timeout=30),
)


@asynccontextmanager
async def probing_cluster():
    """What a prober with endpoint probes gets, opened; the test closes it."""

    def prober(real, settings):
        real.with_prober(settings, ProberPolicy("kubeconfig", (), endpoint_probes=PROBES))

    async with cluster(prober, "prober", "--config-file=prober.yaml") as (adapters, _):
        await adapters.begin()
        assert adapters.prober is not None
        assert adapters.prober.endpoints is not None
        yield adapters, adapters.prober.endpoints


async def test_the_end_closes_the_connections_of_endpoint_probes(monkeypatch):
    async def silent(call):
        await call.hang()

    async with targets.serving(silent) as target, probing_cluster() as (adapters, probed):
        run = asyncio.ensure_future(
            probed.handlers.run(
                replace(PROBES[1], tcp_socket=None, http_get=HttpGet(target.port)), targets.at()
            )
        )
        await until(lambda: len(target.asked) == 1)
        await adapters.close()
        await until(lambda: not target.open)
        assert (await run).outcome is ProbeOutcome.FAILURE
        again = probed.handlers.run(PROBES[1], targets.at())
        with pytest.raises(RuntimeError, match="closed"):
            await again
