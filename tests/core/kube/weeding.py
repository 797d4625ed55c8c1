"""Slices and pods as a seed has them, and what a weeder hears of them."""

from contextlib import asynccontextmanager
from random import Random
from typing import Any, cast

from app.core.kube.weeder_view import WeederSeed
from app.core.model.weeding import ServiceKey
from app.core.tasks import Tasks
from tests.core.kube.test_reflector import Script

NS = "shoot--dev--one"
LABEL = "kubernetes.io/service-name"
ETCD, API = ServiceKey(NS, "etcd-main-client"), ServiceKey(NS, "kube-apiserver")
SERVICES = (ETCD.service, API.service)


def endpoint(pod="etcd-main-0", *, ready: bool | None = True, **more):
    target = {"kind": "Pod", "namespace": NS, "name": pod}
    return {"conditions": {"ready": ready}, "targetRef": target} | more


def a_slice(name, version, *endpoints, service: str | None = ETCD.service, namespace=NS):
    labels = {} if service is None else {LABEL: service}
    meta = {"name": name, "namespace": namespace, "resourceVersion": str(version), "labels": labels}
    return {"metadata": meta, "addressType": "IPv4", "endpoints": list(endpoints)}


def up(name="etcd-1", version=1, **more):
    return a_slice(name, version, endpoint(), **more)


def down(name="etcd-1", version=1, **more):
    return a_slice(name, version, endpoint(ready=False), **more)


def pod(name, version, reason: str | None = "CrashLoopBackOff", **more):
    state = {"waiting": {"reason": reason}} if reason is not None else {"running": {}}
    meta = {"name": name, "namespace": NS, "uid": f"uid-{name}", "resourceVersion": str(version)}
    container = {"name": "main", "state": state, "restartCount": 5}
    return {"metadata": meta, "status": {"containerStatuses": [container]}} | more


def listed(kind, *items, version=10, more=""):
    meta = {"resourceVersion": str(version), "continue": more}
    return {"kind": f"{kind}List", "metadata": meta, "items": list(items)}


class Heard:
    """A listener that remembers what it heard, and what it saw at that moment."""

    def __init__(self, seed: WeederSeed) -> None:
        self.seed = seed
        self.changes: list[tuple[ServiceKey, bool]] = []
        self.relisted: list[Any] = []

    def ready(self, key: ServiceKey) -> bool:
        return any(each.ready for found in self.seed.slices(key) for each in found.endpoints)

    def service_changed(self, key):
        self.changes.append((key, self.ready(key)))

    def services_relisted(self, relisted):
        assert self.seed.watch_state().synced
        self.relisted.append(relisted)


@asynccontextmanager
async def seed_on(script: Script, *, started: bool = True):
    """A weeder's seed over a script, in virtual time."""
    clock, metrics = script.clock, script.metrics
    tasks = Tasks(clock)
    seed: Any = WeederSeed(cast("Any", script), SERVICES, tasks, Random(1))
    seed.clock, seed.metrics, seed.heard, seed.began = clock, metrics, Heard(seed), clock.now()
    seed.subscribe(seed.heard)
    try:
        if started:
            await seed.start()
        yield seed
    finally:
        await tasks.stop()
