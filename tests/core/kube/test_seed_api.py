"""What is asked before a request is sent, and before it is sent once more; which budgets wait; refusals of Events."""

import asyncio
import json
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import replace

import pytest

from app.core.clock import Clock
from app.core.errors import BadAnswer, Forbidden, Invalid, LeadershipLost, NotFound, Unauthorized
from app.core.kube.client import ApiRequest, WatchSilent
from app.core.kube.connections import RequestedRight
from app.core.kube.seed_api import Budget
from tests.core.kube.server import api_of, until

pytestmark = pytest.mark.looptime(False)

PATH = "/api/v1/namespaces/shoot--dev--one/pods/a"
DELETION = ApiRequest(
    RequestedRight("delete", "pods", "shoot--dev--one"), PATH, 5.0, method="DELETE"
)


class World:
    """Knows one token."""

    def __init__(self, token="t1"):  # noqa: S107 - nobody's token
        self.token = token
        self.executed = 0

    async def handle(self, asked):
        if asked.headers.get("authorization") != f"Bearer {self.token}":
            await asked.answer({"message": "who are you?"}, 401)
            return
        self.executed += 1
        await asked.answer({"kind": "Status", "status": "Success"})


async def watch(api):
    async with api.watch(replace(DELETION, method="GET"), silence=1.0) as lines:
        return [line async for line in lines]


async def command(api):
    async with api.socket(replace(DELETION, method="GET"), ("v5.channel.k8s.io",)):
        pass


@pytest.mark.parametrize("way", [watch, command])
async def test_watches_and_commands_are_begun_again_with_the_token_that_is_read_after_a_401(way):
    world = World("t2")
    async with api_of(world.handle, "t2") as (api, server):
        with suppress(BadAnswer):  # it knows no WebSockets
            await way(api)
        assert len(server.asked) == 2
    assert world.executed == 1


@pytest.mark.parametrize(
    ("knows", "read_again", "refuses_from", "raises", "started", "sent", "executed"),
    [
        pytest.param("t1", None, 9, None, 1, 1, 1, id="who starts it is asked before it is sent"),
        pytest.param("t1", None, 1, LeadershipLost, 1, 0, 0, id="what is refused then is not sent"),
        pytest.param("t2", "t2", 9, None, 2, 2, 1, id="after a 401 it is asked once more"),
        pytest.param("t2", "t2", 2, LeadershipLost, 2, 1, 0, id="and may be refused then"),
        pytest.param(
            "t2", None, 9, Unauthorized, 1, 1, 0, id="a 401 to the same credentials ends it"
        ),
    ],
)
async def test_who_starts_a_request_is_asked_before_each_send(
    knows, read_again, refuses_from, raises, started, sent, executed
):
    world, asked = World(knows), 0

    def starting():
        nonlocal asked
        asked += 1
        if asked >= refuses_from:
            raise LeadershipLost("another instance leads")

    async with api_of(world.handle, read_again) as (api, server):
        with pytest.raises(raises) if raises else nullcontext():
            await api.call(DELETION, lambda _: None, Budget.PACED, starting=starting)
        assert (asked, len(server.asked), world.executed) == (started, sent, executed)


async def test_a_silent_watch_is_given_up():
    """Its connection may be dead without anybody having said so."""

    async def stream(asked):
        await asked.begin_stream()
        await asked.hang()

    async with api_of(stream) as (api, _), asyncio.timeout(5):
        watch = ApiRequest(RequestedRight("watch", "pods", "all namespaces"), "/api/v1/pods", 5.0)
        async with api.watch(watch, silence=0.1) as lines:
            with pytest.raises(WatchSilent):
                await anext(lines)


# Budgets.


READ = ApiRequest(RequestedRight("get", "pods", "shoot--dev--one"), PATH, 5.0)


async def ask(api, budget=Budget.NORMAL):
    await api.call(READ, lambda _: None, budget)


async def ok(asked):
    await asked.answer({})


async def hangs(asked):
    """But for Events, which it takes."""
    if asked.method == "POST":
        await asked.answer({}, 201)
    else:
        await asked.hang()


@asynccontextmanager
async def asking(api, budget, number=1):
    """So many requests that are on their way, or wait for their budget."""
    several = [asyncio.ensure_future(ask(api, budget)) for _ in range(number)]
    await asyncio.sleep(0)
    try:
        yield several
    finally:
        for each in several:
            each.cancel()
        await asyncio.gather(*several, return_exceptions=True)


async def test_the_budget_holds_back_what_is_not_urgent_and_only_that():
    async with api_of(ok, qps=0.5, burst=2) as (api, _):
        await ask(api)
        await ask(api)
        async with asking(api, Budget.NORMAL) as (waiting,), asyncio.timeout(1):
            for _ in range(30):
                await ask(api, Budget.URGENT)
            assert not waiting.done()


async def test_at_most_50_urgent_requests_are_in_flight():
    async with (
        api_of(hangs, scale_down_qps=1000.0) as (api, server),
        asking(api, Budget.URGENT, 80),
    ):
        await until(lambda: len(server.asked) == 50)
        await asyncio.sleep(0.05)
        assert len(server.asked) == 50


@pytest.mark.parametrize("budget", [Budget.LEASE, Budget.PACED, None], ids=str)
async def test_what_has_a_budget_of_its_own_waits_for_no_other(budget, monkeypatch):
    """Nothing is left of the normal budget, and no other urgent request may be sent; None: commands in containers."""
    monkeypatch.setattr("app.core.kube.seed_api.URGENT_IN_FLIGHT", 1)

    async def hangs_at_first(asked):
        await (hangs(asked) if len(server.asked) == 1 else ok(asked))

    async with (
        api_of(hangs_at_first, qps=0.001, burst=1) as (api, server),
        asking(api, Budget.URGENT),
    ):
        await until(lambda: server.asked)
        await ask(api)
        async with asyncio.timeout(1):
            if budget is None:
                with suppress(BadAnswer):
                    await command(api)
            else:
                await ask(api, budget)
        assert len(server.asked) == 3


SENT = 1_605_985_200
"""The `Date` of the answers."""


async def test_a_clock_that_is_off_is_measured_and_reported_once(lines):
    """The clock by which we decide: that of the machine may have been corrected since the start."""

    async def late(asked):
        await asked.answer({}, headers={"Date": "Sat, 21 Nov 2020 19:00:00 GMT"})

    async with api_of(late) as (api, _):
        api.clock = Clock(SENT + 3600, lambda: 0.0)
        await ask(api)
        await ask(api)
        assert api.clock_skew == 3599.5
        skew = api.metrics.registry.get_sample_value("dwd_clock_skew_seconds")
        assert skew == pytest.approx(api.clock_skew)
    assert len([entry for entry in lines if "clock" in entry["event"]]) == 1


# Events: they let urgent requests go first; which refusals mean that a right is missing, and which that a namespace is
# going.

GOING = "shoot--dev--going"
LONGEST = f"shoot--{'x' * 56}"
"""A namespace's name has 63 characters at most."""
GIVES_WAY = 0.3


async def send_event(api, name="kube-scheduler.1", namespace=GOING):
    await api.create_event(namespace, {"metadata": {"name": name, "namespace": namespace}})


@pytest.mark.parametrize("ends", [True, False])
async def test_an_event_lets_all_urgent_requests_go_first_but_not_for_long(monkeypatch, ends):
    monkeypatch.setattr("app.core.kube.seed_api._GIVES_WAY", GIVES_WAY)
    async with api_of(hangs) as (api, server), asking(api, Budget.URGENT, 2) as (one, other):
        began = api.clock.now()
        await until(lambda: len(server.asked) == 2)
        event = asyncio.ensure_future(send_event(api))
        one.cancel()
        await asyncio.sleep(GIVES_WAY / 3)
        assert len(server.asked) == 2, "the other one is under way still"
        if ends:
            other.cancel()
        await asyncio.wait_for(event, 2)
        assert (api.clock.now() - began < GIVES_WAY) is ends


async def test_events_take_nothing_of_the_request_budget_and_wait_for_none():
    async with api_of(ok, qps=0.01, burst=1) as (api, server):
        async with asyncio.timeout(2):
            for _ in range(20):
                await send_event(api)
            await ask(api)
            await send_event(api)
        sent = [asked for asked in server.asked if asked.method == "POST"]
    assert {asked.path for asked in sent} == {f"/apis/events.k8s.io/v1/namespaces/{GOING}/events"}
    assert json.loads(sent[20].body)["metadata"]["name"] == "kube-scheduler.1"


TERMINATING = (
    'events.events.k8s.io "{name}" is forbidden: unable to create new content in namespace {namespace} because it is '
    "being terminated"
)
NO_RIGHT = (
    'events.events.k8s.io is forbidden: User "dwd" cannot create resource "events" in API group "events.k8s.io" in the '
    'namespace "{namespace}"'
)
POLICY = (
    "events.events.k8s.io \"{name}\" is forbidden: ValidatingAdmissionPolicy 'no-events' with binding 'b' denied "
    "request: not here"
)
QUOTA = 'events.events.k8s.io "{name}" is forbidden: exceeded quota: few'
WEBHOOK = 'admission webhook "validation.example.org" denied the request: not in {namespace}'
"""As a real API server puts it."""


@pytest.mark.parametrize(
    ("says", "name", "namespace", "meant"),
    [
        pytest.param(TERMINATING, "kube-scheduler.1", GOING, NotFound, id="it is terminating"),
        # an error's message is cut: what tells it apart must not be what is cut away
        pytest.param(
            TERMINATING, "w" * 63 + ".66517289c5090.7", LONGEST, NotFound, id="long names"
        ),
        pytest.param(NO_RIGHT, "kube-scheduler.1", GOING, Forbidden, id="any other 403"),
        # it is about this Event: others are still wanted elsewhere
        pytest.param(POLICY, "kube-scheduler.1", GOING, Invalid, id="a policy"),
        pytest.param(QUOTA, "kube-scheduler.1", GOING, Invalid, id="a quota"),
        pytest.param(WEBHOOK, "kube-scheduler.1", GOING, Invalid, id="a webhook"),
    ],
)
async def test_a_403_that_is_about_a_namespace_or_an_event_is_no_missing_right(
    says, name, namespace, meant
):
    message = says.format(name=name, namespace=namespace)

    async def refuses(asked):
        await asked.answer({"kind": "Status", "code": 403, "message": message}, 403)

    async with api_of(refuses) as (api, _):
        with pytest.raises(meant, match=f"^create events in {namespace}: 403 ") as caught:
            await send_event(api, name, namespace)
    assert type(caught.value) is meant
    assert caught.value.status == 403
    assert isinstance(caught.value.__cause__, Forbidden) is (meant is not Forbidden)
