"""No input of an outsider holds the event loop for more than 50 ms (threat T18): all that is hostile, played to it.

A watchdog on the loop names what held it. The ConfigMap of the overrides has a file of its own, with the same watchdog
(`test_overrides.py`). On uvloop, as the program: it hands over more at a time.
"""

import asyncio
import base64
import json
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from threading import Thread
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.commands import parse
from app.core.clock import Clock
from app.core.config.policy_files import read_prober_file, read_weeder_file
from app.core.kube import resources
from app.core.kube.kubeconfig import ServerPolicy
from app.core.kube.reflector import Reflector
from app.core.kube.resources import Resources
from app.core.kube.seed_api import SeedApi
from app.core.kube.shoot import ShootConnector
from app.core.metrics import Metrics
from app.core.model.names import LabelSelector
from app.core.model.probing import VerdictReason
from app.core.model.shoots import SecretView
from app.core.model.workloads import REPLICAS, SINCE, ResourceRef
from app.core.reporting.audit import AuditLog
from app.core.tasks import Tasks
from app.core.web.serving import HttpServer
from app.realcluster import RealCluster
from app.service.parts import Configured, Core
from app.service.service import Service
from bench.hostile.kinds import KINDS
from tests.api.facts import healthy
from tests.api.fakes import FakeOverrides, FakeShoots, application, context
from tests.attack.kubeconfigs import NAMESPACE, kubeconfig
from tests.attack.test_attack import serving_beside
from tests.attack.watchdog import on_uvloop, watched
from tests.core.kube.server import AUTHORITY, SERVER_PAIR, FakeCredentials
from tests.e2e.processes import free_port
from tests.support.harness import Lab

# simulated seeds and fakes, which are beside it in the same loop, are no part of the program
pytestmark = [pytest.mark.looptime(False), pytest.mark.blocking]

MIB = 1 << 20


# Answers of shoots.

TOGETHER = 25
GROUPS = [list(KINDS)[start : start + TOGETHER] for start in range(0, len(KINDS), TOGETHER)]
LARGEST = "ten-thousand-leases-in-one-page"
"""With as many nodes: the most that is taken, and judged."""


@contextmanager
def hostile_servers(kinds, folder):
    """A port for each kind, served by a process of its own: it goes on while our loop is away.

    `kind.n` is one of several of the same kind.
    """
    pair = {"certificate": SERVER_PAIR.certificate.decode(), "key": SERVER_PAIR.key.decode()}
    ports = {kind: free_port() for kind in kinds}
    file = folder / "kinds.json"
    served = [{"kind": kind.partition(".")[0], "port": ports[kind], **pair} for kind in kinds]
    file.write_text(json.dumps(served))
    command = [sys.executable, "-m", "bench.hostile.servers", str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield ports
        finally:
            process.kill()


class HostileConnector(ShootConnector):
    """Connects to the port of the kind that a namespace is named after, whatever its kubeconfig says."""

    def __init__(self, ports, clock):
        super().__init__(clock, Metrics(), ServerPolicy(pattern=".*"), probe_timeout=3.0)
        self._ports = ports

    async def connect(self, secret):
        server = f"https://127.0.0.1:{self._ports[secret.namespace]}"
        config = kubeconfig(server=server, ca=AUTHORITY.pem)
        return await super().connect(replace(secret, kubeconfig=config))

    def spent(self):
        return {kind: self.consumer(kind).spent for kind in self._ports}


async def probed(ports, seconds):
    """What held the loop while a prober looked at these shoots; who was looked at, and whose nodes were judged."""
    clock = Clock.system()
    tasks = Tasks(clock)
    lab = Lab(tasks, clock)
    world = lab.world()
    for kind in ports:
        world.add_shoot(kind, nodes=2, grace="8s")  # their leases have expired within 6 s
    connector = HostileConnector(ports, clock)
    with watched(connector.spent) as dog:
        harness = lab.prober(
            world,
            connector=lambda _: connector,
            probe_interval=1.0,
            probe_timeout=3.0,
            initial_delay=0.0,
        )
        await harness.run(seconds)
    looked = {kind for kind in ports if harness.probes(kind)}
    told = {kind for kind in ports if harness.status(kind).decision is not None}
    judged = {kind for kind in told if harness.reason(kind) is VerdictReason.NO_CANDIDATES}
    await lab.close()
    await tasks.stop()
    await connector.close()
    await asyncio.sleep(0.1)
    return dog.too_long, looked, judged


@pytest.mark.parametrize("kinds", GROUPS, ids=[f"{group[0]}…" for group in GROUPS])
def test_no_answer_of_a_shoot_holds_the_loop(kinds, tmp_path):
    with hostile_servers(kinds, tmp_path) as ports:
        too_long, looked, _ = on_uvloop(probed(ports, seconds=10))
    assert not too_long
    assert looked == set(kinds)


def test_the_most_that_is_judged_does_not_hold_the_loop(tmp_path):
    with hostile_servers([LARGEST], tmp_path) as ports:
        too_long, _, judged = on_uvloop(probed(ports, seconds=10))
    assert not too_long
    assert judged == {LARGEST}, "it went as far as that"


async def asked_at_once(ports):
    """What held the loop while all these shoots answered in the same instant, and how many were asked."""
    connector = HostileConnector(ports, Clock.system())
    shoots = [await connector.connect(SecretView(name, "1", b"")) for name in ports]
    with watched(connector.spent) as dog:
        asked = []
        for each in shoots:
            asked.append(asyncio.ensure_future(each.leases(new_connection=True)))
            await asyncio.sleep(0)  # connecting is no input of theirs
        results = await asyncio.gather(*asked, return_exceptions=True)
        await asyncio.sleep(0.05)
    await connector.close()
    await asyncio.sleep(0.1)
    return dog.too_long, len(results)


@pytest.mark.parametrize(
    "kind", ["chunks-of-one-byte", "nodes-in-chunks-of-a-hundred-bytes", "key-updates-without-end"]
)
def test_a_hundred_shoots_that_answer_in_the_same_instant_do_not_hold_the_loop(kind, tmp_path):
    kinds = [f"{kind}.{number}" for number in range(100)]
    with hostile_servers(kinds, tmp_path) as ports:
        too_long, asked = on_uvloop(asked_at_once(ports))
    assert not too_long
    assert asked == 100


# Objects of the seed: what a page and the line of a watch may have in fields that nobody reads, and in others.

KCM = ResourceRef("apps/v1", "Deployment", "kube-controller-manager")
ETCD = ResourceRef("druid.gardener.cloud/v1alpha1", "Etcd", "etcd-main")
SERVED = b'{"kind":"APIResourceList","resources":[{"name":"etcds","kind":"Etcd"}]}'
OF_KIND = {
    "clusters": "Cluster",
    "machines": "Machine",
    "secrets": "Secret",
    "deployments": "Deployment",
    "etcds": "Etcd",
    "endpointslices": "EndpointSlice",
    "pods": "Pod",
    "pauses": "Pause",
    "scalerequests": "ScaleRequest",
}
LARGE = 1_400_000
"""Bytes of an object: etcd takes 1.5 MiB."""


def many(part: bytes, size=LARGE) -> bytes:
    return b",".join([part] * (size // (len(part) + 1)))


def numbered(form: bytes, size=LARGE) -> bytes:
    return b",".join(form % n for n in range(size // len(form % size)))


def workers(number: int, conditions: int) -> bytes:
    named = b'{"name":"w","machineControllerManager":{"nodeConditions":[%s]}}'
    each = named % b",".join(b'"C%d"' % n for n in range(conditions))
    return b'"spec":{"shoot":{"spec":{"provider":{"workers":[%s]}}}}' % b",".join([each] * number)


FIELDS: dict[str, Callable[[], bytes]] = {
    "short numbers": lambda: b'"deep":[%s]' % many(b"1"),
    "long numbers": lambda: b'"deep":[%s]' % many(b"1.7976931348623157e308"),
    "escapes": lambda: b'"deep":"%s"' % (rb"\u00e9" * (LARGE // 6)),
    "escapes in its name": lambda: b'"spec":{"x":"%s"}' % (rb"\n" * (LARGE // 2)),
    "white space": lambda: b'"deep":%s1' % (b" " * LARGE),
    "empty objects": lambda: b'"deep":[%s]' % many(b"{}"),
    "keys": lambda: b'"deep":{%s}' % numbered(b'"a%d":1'),
    "one key again and again": lambda: b'%s,"spec":{}' % many(b'"spec":null'),
    "many small depths": lambda: b'"deep":[%s]' % many(b"[" * 900 + b"]" * 900),
    "1,500 levels": lambda: b'"deep":%s%s' % (b"[" * 1500, b"]" * 1500),
    "700,000 levels": lambda: b'"deep":%s%s' % (b"[" * (LARGE // 2), b"]" * (LARGE // 2)),
    "levels of objects": lambda: b'"deep":%s1%s' % (b'{"a":' * 230_000, b"}" * 230_000),
    "levels between strings": lambda: b'"deep":[%s]' % many(b'["\\\\",[' * 70 + b"]]" * 70),
    "a thousand workers": lambda: workers(1000, 32),
    "workers of many conditions": lambda: workers(200, 700),
    "containers": lambda: (
        b'"spec":{"containers":[%s]},"status":{"containerStatuses":[%s]}'
        % (
            b",".join([b'{"name":"%s"}' % (b"a" * 600)] * 1000),
            b",".join([b'{"name":"%s","state":{"waiting":{"reason":"x"}}}' % (b"a" * 600)] * 1000),
        )
    ),
    "replicas that are lists": lambda: b'"spec":{"replicas":[%s]}' % many(b"[[[[]]]]"),
    "replicas that are objects": lambda: b'"spec":{"replicas":[%s]}' % many(b"{}"),
    "replicas without end": lambda: b'"spec":{"replicas":%s}' % (b"9" * LARGE),
    "a status of lists": lambda: b'"status":{"readyReplicas":[%s]}' % many(b"[[[[]]]]"),
    "endpoints": lambda: (
        b'"endpoints":[%s]'
        % b",".join(
            [
                b'{"conditions":{"ready":true},"targetRef":{"kind":"Pod","name":"%s"}}'
                % (b"a" * 1000)
            ]
            * 1000
        )
    ),
    "a grace without end": lambda: (
        b'"spec":{"shoot":{"spec":{"kubernetes":{"kubeControllerManager":'
        b'{"nodeMonitorGracePeriod":"%s"}}}}}' % (b"1h" * (LARGE // 2))
    ),
    "a kubeconfig": lambda: b'"data":{"kubeconfig":"%s"}' % (b"QUFB" * (LARGE // 4)),
    "a kubeconfig that is no base64": lambda: b'"data":{"kubeconfig":"%s"}' % (b"=" * LARGE),
}
METADATA: dict[str, Callable[[], bytes]] = {
    "labels": lambda: b'"labels":{%s}' % numbered(b'"a%d":"b"'),
    # Of annotations kube-apiserver takes 256 KiB, keys and values together.
    "annotations": lambda: b'"annotations":{%s}' % numbered(b'"a%d":"b"', 400_000),
    "annotations of ours": lambda: (
        b'"annotations":{"%s":"%s","%s":"%s"}'
        % (REPLICAS.encode(), b"9" * 120_000, SINCE.encode(), b"2" * 120_000)
    ),
    "an owner of a megabyte": lambda: (
        b'"ownerReferences":[{"controller":true,"name":"%s","uid":"%s"}]'
        % (rb"\u0001" * 100_000, b"token=" * 100_000)
    ),
    "owners": lambda: b'"ownerReferences":[%s]' % many(b'{"controller":true}'),
    "managed fields": lambda: b'"managedFields":[%s]' % many(b'{"fieldsV1":{"f:a":{}}}'),
}
OBJECTS = {name: (make, None) for name, make in FIELDS.items()} | {
    name: (None, make) for name, make in METADATA.items()
}
AT_ONE_SEED = 6
SEEDS = [
    list(OBJECTS)[start : start + AT_ONE_SEED] for start in range(0, len(OBJECTS), AT_ONE_SEED)
]
of_each_seed = pytest.mark.parametrize("names", SEEDS, ids=[f"{names[0]}…" for names in SEEDS])
"""Several of them, one after the other, at one seed: a process that starts and stops for each takes minutes."""


def thing(
    name: str, field: bytes, meta: bytes, namespace: str = NAMESPACE, version: int = 7
) -> bytes:
    head = b'{"metadata":{"name":"%s","namespace":"%s","uid":"u","resourceVersion":"%d",%s},%s}'
    return head % (name.encode(), namespace.encode(), version, meta, field)


def page(kind: str, items: Iterable[bytes], more: int | None = None) -> bytes:
    """A page of a list; `more` is what the next one continues with."""
    listed = b'{"kind":"%sList","metadata":{"resourceVersion":"9"%s},"items":[%s]}'
    rest = b"" if more is None else b',"continue":"%d"' % more
    return listed % (kind.encode(), rest, b",".join(items))


def page_of(asked: Any, kind: str, objects: Sequence[Callable[[], bytes]]) -> bytes:
    """15 MiB of one of these objects, or as many as are asked for; the next page has the next one."""
    number = int(asked.query.get("continue", "0"))
    one, more = objects[number](), number + 1 if number + 1 < len(objects) else None
    limit = int(asked.query.get("limit", "500"))
    return page(kind, [one] * min(max(15 * MIB // len(one), 1), limit), more)


async def brings(asked: Any, one: bytes) -> None:
    """An event of a watch, in parts."""
    event = b'{"type":"MODIFIED","object":%s}\n' % one
    for start in range(0, len(event), 16_384):
        await asked.chunk(event[start : start + 16_384])


class HostileSeed:
    """Lists of such objects, page after page, and watches that bring one more of each."""

    def __init__(self, objects: list[bytes]) -> None:
        self._objects = objects
        self.watched = set[str]()

    async def handle(self, asked):
        last = asked.path.rsplit("/", 1)[1]
        if last not in OF_KIND:
            await asked.answer(SERVED)
            return
        if "watch" in asked.query:
            await asked.begin_stream()
            for one in self._objects:
                await brings(asked, one)
            self.watched.add(last)
            await asked.hang()
        await asked.answer(
            page_of(asked, OF_KIND[last], [partial(bytes, one) for one in self._objects])
        )


async def reflected(origin, seed):
    """What held the loop while they were listed and watched as what the program below does not ask for."""
    clock, metrics = Clock.system(), Metrics()
    server = cast("Any", SimpleNamespace(origin=origin))
    api = SeedApi(FakeCredentials(server), clock, metrics, qps=1000.0, burst=1000)
    found: tuple[Any, ...] = (
        resources.dependent(ETCD, Resources(cast("Any", api))),
        resources.probed_pods(LabelSelector()),
    )
    tasks = Tasks(clock)
    with watched() as dog:
        for each in found:
            reflector: Reflector[Any] = Reflector(each, api, Random(1), lambda *_: None)
            _ = tasks.shared(reflector.run, each.label)
        async with asyncio.timeout(60):
            while seed.watched != {"etcds", "pods"}:  # noqa: ASYNC110 - nothing there tells us
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.3)
    await tasks.stop()
    await api.close()
    await asyncio.sleep(0.1)
    return dog.too_long


@of_each_seed
def test_no_object_of_the_seed_holds_the_loop(names):
    made = [OBJECTS[name] for name in names]
    seed = HostileSeed(
        [
            thing("a", field() if field else b'"spec":{}', meta() if meta else b'"x":1')
            for field, meta in made
        ]
    )
    with serving_beside(seed.handle) as origin:
        assert not on_uvloop(reflected(origin, seed))


# The same objects, and all that the program does about a change of them.

PROGRAM = Path(__file__).parents[2]
MORE = {
    "clusters": b'"spec":{"shoot":{"kind":"Shoot","metadata":{"name":"one"},'
    b'"spec":{"provider":{"workers":[{"name":"w"}]}},'
    b'"status":{"lastOperation":{"type":"Reconcile","state":"Succeeded"}}}}',
    "endpointslices": b'"endpoints":[{"conditions":{"ready":true},"targetRef":{"kind":"Pod","name":"a"}}]',
    "pods": b'"status":{"containerStatuses":[{"name":"c","restartCount":9,"state":{"waiting":'
    b'{"reason":"CrashLoopBackOff"}}}]}',
    "deployments": b'"spec":{"replicas":1},"status":{"readyReplicas":1}',
    "pauses": b'"spec":{"scope":"all","reason":"r"}',
    "scalerequests": b'"spec":{"direction":"Up","reason":"r"}',
}
"""What makes the program act: it probes that shoot, recovers that service, judges that pod."""
LABELS = (
    b'"labels":{"kubernetes.io/service-name":"kube-apiserver","role":"controller-manager",'
    b'"gardener.cloud/role":"controlplane"}'
)
FOLLOWED = OF_KIND.keys() - {"etcds"}


class LivingSeed:
    """Hostile objects that are listed, then become good ones, which are acted on, and then each of the hostile ones in
    turn, each time with another version.
    """

    def __init__(self, objects: list[tuple[bytes, bytes]]) -> None:
        """`objects` are the fields and the metadata of each."""
        self._objects = objects
        self.watched = set[str]()

    async def handle(self, asked):
        plural = asked.path.rsplit("/", 1)[1]
        if plural not in FOLLOWED:
            await asked.answer(SERVED)  # discovery, reviews, live reads and writes
            return
        namespace = (
            asked.path.rpartition("/namespaces/")[2] if "/namespaces/" in asked.path else NAMESPACE
        )
        namespace = namespace.partition("/")[0]
        name = asked.query.get("fieldSelector", "=a").rpartition("=")[2]
        if plural == "clusters":
            name, namespace = NAMESPACE, ""  # cluster-scoped
        made = partial(self._one, plural, namespace, name)
        if "watch" in asked.query:
            await asked.begin_stream()
            await brings(asked, made(8, b'"x":1', b'"x":1'))
            await asyncio.sleep(0.2)
            for version, hostile in enumerate(2 * self._objects, 9):
                await brings(asked, made(version, *hostile))
                await asyncio.sleep(0.1)
            self.watched.add(plural)
            await asked.hang()
        kind = OF_KIND[plural]
        if "PartialObjectMetadata" in asked.headers.get("accept", ""):
            kind = "PartialObjectMetadata"
        listed = [partial(made, 7, *hostile) for hostile in self._objects]
        await asked.answer(page_of(asked, kind, listed))

    def _one(
        self, plural: str, namespace: str, name: str, version: int, hostile: bytes, meta: bytes
    ) -> bytes:
        """Of two values of a key the last one is read: the hostile one.

        A slice keeps its labels, and is not ready in the list, so that its service is seen to come back.
        """
        field, slices = MORE.get(plural, b'"x":1'), plural == "endpointslices"
        if slices and version == 7:
            field = field.replace(b"true", b"false")
        own_last = slices and version == 7
        field = b",".join((hostile, field) if own_last else (field, hostile))
        return thing(
            name, field, b",".join((meta, LABELS) if slices else (LABELS, meta)), namespace, version
        )


async def lived_with(origin, seed):
    """What held the loop while the whole program listed and watched this, and reacted to it; and what it reacted to."""
    words = ["serve", "--kube-api-qps=1000", "--kube-api-burst=1000", "--scale-down-qps=100"]
    words += [f"--{loop}-config-file={PROGRAM}/config/{loop}.yaml" for loop in ("prober", "weeder")]
    words += [
        f"--{port}-bind-addr=127.0.0.1:{free_port()}" for port in ("api", "health", "metrics")
    ]
    settings = cast("Any", parse(words, {})).settings
    core = Core.create()
    credentials: Any = FakeCredentials(SimpleNamespace(origin=origin))
    cluster = RealCluster(settings, core, credentials)
    prober = read_prober_file(settings.prober_config_file, strict=True, allow_exec=False).policy
    weeder = read_weeder_file(settings.weeder_config_file, strict=True).policy
    cluster.with_prober(settings, prober)
    cluster.with_weeder(weeder)
    told = Counter[str]()
    core.notice_bus.subscribe(lambda notice: told.update([notice.reason]))
    service = Service(Configured(settings, "1", prober, weeder), core, cluster.adapters())
    await service.start()
    with watched() as dog:
        with suppress(TimeoutError):
            async with asyncio.timeout(60):
                while seed.watched != FOLLOWED:  # noqa: ASYNC110 - nothing there tells us
                    await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
    await service.stop("the end of the test")
    await asyncio.sleep(0.1)
    return dog.too_long, told, seed.watched


@of_each_seed
def test_nothing_that_is_done_about_an_object_of_the_seed_holds_the_loop(names):
    made = [OBJECTS[name] for name in names]
    seed = LivingSeed(
        [(field() if field else b'"x":1', meta() if meta else b'"x":1') for field, meta in made]
    )
    with serving_beside(seed.handle) as origin:
        too_long, told, followed = on_uvloop(lived_with(origin, seed))
    assert not too_long
    assert followed == FOLLOWED, "it went as far as the pods of a recovery"
    assert told["ProbingStarted"], "and as a probe"


# Callers of our ports.

PAUSE = f"/api/v1/shoots/{NAMESPACE}/pause"


def request(line: str, *headers: str, body: bytes = b"") -> bytes:
    head = [f"{line} HTTP/1.1", "Host: localhost", *headers]
    if body:
        head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*head, "", ""]).encode() + body


def put(body: bytes) -> bytes:
    return request(f"PUT {PAUSE}", body=body)


def chunked(*chunks: bytes) -> bytes:
    lines = "Transfer-Encoding: chunked", "Content-Type: application/json"
    return request(f"PUT {PAUSE}", *lines) + b"".join(chunks)


def shoots(query: str) -> bytes:
    return request(f"GET /api/v1/shoots?{query}")


CALLERS = {
    "chunks of one byte": chunked(b"1\r\n \r\n" * 60_000),
    "a chunk extension without end": chunked(b"1;" + b"x" * MIB),
    "chunk sizes of many digits": chunked(b"0" * MIB),
    "trailers without end": chunked(b"0\r\n" + b"a: b\r\n" * 60_000),
    "one request after the other": request("GET /livez") * 300,
    "writes, one after the other": put(b'{"reason": "x"}') * 100,
    "lines": b"\r\n" * 300_000,
    "no HTTP": b"\x00" * MIB,
    "a header without end": b"GET / HTTP/1.1\r\nX: " + b"x" * MIB,
    "headers without end": b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 100_000,
    "as many headers as may be": request("GET /livez", *["a:b"] * 3_000),
    "a header that goes on": b"GET / HTTP/1.1\r\nX: y\r\n" + b" z\r\n" * 100_000,
    "a target without end": b"GET /" + b"x" * MIB,
    "a long path": request("GET /api/v1/shoots/" + "a/" * 7_000),
    "a path of escapes": request("GET /" + "%2e" * 5_000),
    "parameters": shoots("&".join(f"a{n}=b" for n in range(2_000))),
    "one parameter again and again": shoots("state=Healthy&" * 1_000),
    "a long parameter": shoots("namespace=" + "a" * 15_000),
    "a number without end": shoots("limit=" + "9" * 15_000),
    "a token without end": request("GET /api/v1/shoots", "Authorization: Bearer " + "a" * 15_000),
    "tokens that look like one": request("GET /", "Authorization: Bearer " + "a.b." * 3_700),
    "cookies": request("GET /", "Cookie: " + "a=b; " * 3_000),
    "a cookie of escapes": request("GET /livez", 'Cookie: a="' + "\\" * 15_000 + '"'),
    "kinds of answers": request("GET /", "Accept: " + "a/b;q=0.1," * 1_500),
    "ranges": request("GET /", "Range: bytes=" + "0-1," * 3_800),
    "addresses": request("GET /livez", "X-Forwarded-For: " + "::1," * 3_800),
    "versions that are known": request("GET /api/v1/shoots", "If-None-Match: " + '"a",' * 3_700),
    "a page of brackets": shoots("continue=" + base64.urlsafe_b64encode(b"[" * 10_000).decode()),
    "what it says that it is": request(
        f"PUT {PAUSE}", "Content-Type: application/json;" + "a=b;" * 3_600, "Content-Length: 2"
    )
    + b"{}",
    "marks on one letter": put(('{"reason": "a' + "\u0315\u0300" * 3_500 + '"}').encode()),
    "brackets": put(b"[" * 16_000),
    "deep objects": put(b'{"a":' * 900 + b"1" + b"}" * 900),
    "keys": put(b"{" + numbered(b'"a%d":1', 15_000) + b"}"),
    "one key again and again": put(b"{" + many(b'"a":1', 15_000) + b"}"),
    "numbers": put(b"[" + many(b"1e308", 15_000) + b"]"),
    "a long number": put(b'{"reason": ' + b"9" * 15_000 + b"}"),
    "escapes": put(b'{"reason": "' + rb"\u00e9" * 2_600 + b'"}'),
    "a reason of spaces": put(b'{"reason": "' + b" " * 15_000 + b'"}'),
    "what looks like secrets": put(b'{"reason": "' + b"token=" * 2_600 + b'"}'),
    "what looks like keys": put(b'{"reason": "' + b"-----BEGIN " * 1_400 + b'"}'),
    "a duration without end": put(b'{"reason": "x", "duration": "' + b"1h" * 7_000 + b'"}'),
    "all shoots": shoots("limit=500") * 20,
    "the page of all shoots": request("GET /") * 20,
    "metrics": request("GET /metrics") * 20,
    "the document": request("GET /openapi.json") * 20,
}


def say(address, data: bytes) -> None:
    """Sends all that is taken, and reads what comes for a second."""
    with socket.create_connection(address) as line:
        line.settimeout(0.5)
        with suppress(OSError):
            line.sendall(data)
            while line.recv(MIB):
                pass


async def called(attack, tls=None):
    """What held the loop while somebody called like that."""
    known = FakeShoots()
    known.add(*(healthy(f"shoot--acme--{number:04}") for number in range(500)), healthy(NAMESPACE))
    audit = AuditLog(asyncio.get_running_loop().time)
    app = application(context(known, overrides=FakeOverrides(), audit=audit))
    server = HttpServer("api", app, "127.0.0.1", 0, tls=tls)
    serving = asyncio.ensure_future(server.run())
    await asyncio.to_thread(say, server.address, request("GET /openapi.json"))  # made once
    with watched() as dog:
        with suppress(OSError):
            await asyncio.to_thread(attack, server.address)
        await asyncio.sleep(0.05)
    server.stop()
    await serving
    return dog.too_long


def together(address, host: str, data: bytes) -> None:
    """Thirty callers say the same at once."""
    lines = [socket.create_connection(address, source_address=(host, 0)) for _ in range(30)]

    def speak(line) -> None:
        line.settimeout(0.5)
        with suppress(OSError), line:
            line.sendall(data)
            while line.recv(MIB):
                pass

    callers = [Thread(target=speak, args=(line,)) for line in lines]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()


TOLD = [list(CALLERS)[start : start + 15] for start in range(0, len(CALLERS), 15)]


@pytest.mark.parametrize("names", TOLD, ids=[f"{names[0]}…" for names in TOLD])
def test_thirty_callers_at_once_do_not_hold_the_loop(names):
    """Each thirty from an address of their own: one that has said too much is heard later."""

    def attack(address):
        for number, name in enumerate(names, 2):
            together(address, f"127.0.0.{number}", CALLERS[name])

    assert not on_uvloop(called(attack))
