"""What must be secret, and every place where a watchdog could have told it (threat T12)."""

import json
from collections.abc import Iterator

from tests.e2e.api import people
from tests.e2e.stage import Stage

_SOMETHING = 200  # characters
_KINDS = ("pauses", "scalerequests")


async def assert_nothing_secret_was_told(stage: Stage) -> None:
    """Looks for what is in the kubeconfigs of seed and shoot, in all that the programs have told.

    Logs, metrics, answers of the API, Events, and the objects that they write.
    """
    tokens = (stage.token, stage.shoot.token)
    assert all(tokens), "an empty token is found everywhere"
    wanted = [*tokens, *(each.rpartition(".")[2] for each in tokens)]  # their signatures alone, too
    places = dict(_logs(stage))
    places |= {f"metrics of {name}": text for name, text in await _metrics(stage)}
    places["answers"] = "\n".join(text for each in stage.programs for text in each.api.heard)
    places["objects"] = await _objects(stage)
    for name, text in places.items():
        assert len(text) > _SOMETHING, f"{name}: nothing was looked at"
        found = [each[:6] for each in wanted if each in text]
        assert not found, f"{name}: has secrets that begin with {found}"


def _logs(stage: Stage) -> Iterator[tuple[str, str]]:
    for each in stage.programs:
        yield f"log of {each.name}", each.child.log.read_text(errors="replace")


async def _metrics(stage: Stage) -> list[tuple[str, str]]:
    return [(each.name, await each.metrics()) for each in stage.programs if each.child.running]


async def _objects(stage: Stage) -> str:
    """Events, and what else it writes; not every scenario has an Event, each has a Lease."""
    collections = [
        f"/api/v1/namespaces/{stage.garden}/events",
        f"/api/v1/namespaces/{stage.shoot.namespace}/events",
        *(
            people(kind, where)
            for kind in _KINDS
            for where in (stage.garden, stage.shoot.namespace)
        ),
        f"/apis/coordination.k8s.io/v1/namespaces/{stage.garden}/leases",
        f"/apis/discovery.k8s.io/v1/namespaces/{stage.garden}/endpointslices",
        f"/apis/apps/v1/namespaces/{stage.shoot.namespace}/deployments",
    ]
    return json.dumps([await stage.seed.api.items(each) for each in collections])
