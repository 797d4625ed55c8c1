"""Pauses and ScaleRequests that are there to keep the event loop, or to drown what people decided."""

import asyncio
import json
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.core.clock import Clock
from app.core.kube.custom_objects import PAUSE, SCALE_REQUEST, CustomObjects
from app.core.kube.seed_api import SeedApi
from app.core.metrics import Metrics
from app.core.model.instants import rfc3339
from app.core.overrides.cache import OverrideCache
from app.core.overrides.reconciler import OverrideReconciler
from app.core.overrides.service import OverrideService
from app.core.reporting.history import History
from app.core.reporting.metering import Metering
from app.core.reporting.notices import NoticeBus
from app.core.tasks import Tasks
from tests.attack.test_attack import serving_beside
from tests.attack.watchdog import on_uvloop, watched
from tests.core.kube.server import FakeCredentials

pytestmark = pytest.mark.looptime(False)

GROUP = "dependency-watchdog.gardener.cloud"
HOME = "garden"
KINDS = {"pauses": "Pause", "scalerequests": "ScaleRequest"}


class People:
    """A seed with the objects of people: lists in pages, and watches that bring each of them once more."""

    def __init__(self, objects):
        self._objects = {
            plural: [self._text(each) for each in objects.get(plural, ())] for plural in KINDS
        }

    @staticmethod
    def _text(made):
        return json.dumps(made, separators=(",", ":")).encode()

    async def handle(self, asked):
        plural = asked.path.partition("?")[0].rstrip("/").rpartition("/")[2]
        found = self._objects[plural]
        if "watch" in asked.query:
            await asked.begin_stream()
            for each in found[:2_000]:
                await asked.chunk(b'{"type":"MODIFIED","object":%s}\n' % each)
            await asked.hang()
            return
        start, limit = int(asked.query.get("continue", "0")), int(asked.query.get("limit", "500"))
        page, after = found[start : start + limit], start + limit
        rest = b',"continue":"%d"' % after if after < len(found) else b""
        await asked.answer(
            b'{"kind":"%sList","metadata":{"resourceVersion":"7"%s},"items":[%s]}'
            % (KINDS[plural].encode(), rest, b",".join(page))
        )


def made(kind, number, namespace, **spec):
    meta = {
        "name": f"{number:x}",
        "namespace": namespace,
        "uid": f"u{number}",
        "resourceVersion": "5",
        "creationTimestamp": rfc3339(Clock.system().now() - 60),
    }
    return {"apiVersion": f"{GROUP}/v1alpha1", "kind": kind, "metadata": meta, "spec": spec}


def pauses(number, namespace, **spec):
    spec = {"reason": "storm", **spec}
    return {"pauses": [made("Pause", n, namespace(n), **spec) for n in range(number)]}


def requests(number, namespace, **spec):
    spec = {"direction": "Down", "reason": "storm", **spec}
    found = [made("ScaleRequest", n, namespace(n), **spec) for n in range(number)]
    return {"scalerequests": found}


def of_one(_):
    return "shoot--a"


def of_all(_):
    return HOME


def of_each(number):
    return f"shoot--{number}"


SECRETS = "token=" * 80
HOSTILE = {
    "pauses of one shoot": pauses(5_000, of_one),
    "pauses of all shoots": pauses(5_000, of_all),
    "a pause of each of many": pauses(5_000, of_each, scope="scaleDown"),
    "of a newer version": pauses(5_000, of_each, scope="everything"),
    "texts like secrets": pauses(5_000, of_one, reason=SECRETS, author=SECRETS),
    "texts of control characters": pauses(5_000, of_one, reason="\x01" * 500),
    "requests of one shoot": requests(5_000, of_one),
    "requests of a newer version": requests(5_000, of_each, direction="Sideways"),
}


async def followed(origin, number):
    """What held the loop while a leading prober followed it all, and asked what is in force every now and then."""
    clock, metrics, notice_bus = Clock.system(), Metrics(), NoticeBus()
    server = cast("Any", SimpleNamespace(origin=origin))
    api = SeedApi(FakeCredentials(server), clock, metrics, qps=1000.0, burst=1000)
    tasks = Tasks(clock)
    shared = (api, "dwd-1", tasks, Random(1))
    known, orders = CustomObjects(PAUSE, *shared), CustomObjects(SCALE_REQUEST, *shared)
    for subscriber in (Metering(metrics).note, History().note):
        notice_bus.subscribe(subscriber)
    with watched() as dog:
        book = OverrideCache(known, orders, HOME, clock)
        service = OverrideService(known, orders, book, HOME, clock, Random(2), dry_run=True)
        upkeep = OverrideReconciler(
            book,
            service,
            known,
            notice_bus,
            clock,
            home=HOME,
            leading=lambda: True,
            clusters=lambda: None,
        )
        for run in (book.run, upkeep.run):
            _ = tasks.shared(run, "overrides")
        await known.start()
        await orders.start()
        async with asyncio.timeout(60):
            while len([*book.all_pauses(), *book.requests()]) < number:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        for _ in range(10):
            book.effective("shoot--a")
            await asyncio.sleep(0.05)
    await tasks.stop()
    await api.close()
    await asyncio.sleep(0.1)
    return dog.too_long


@pytest.mark.parametrize("objects", HOSTILE.values(), ids=HOSTILE)
def test_objects_without_number_do_not_keep_the_loop(objects):
    number = sum(map(len, objects.values()))
    with serving_beside(People(objects).handle) as origin:
        assert not on_uvloop(followed(origin, number))
