"""What must be secret, and every place where a watchdog could have told it (threat T12)."""

import json
from collections.abc import Iterable, Iterator

from tests.e2e.api import people
from tests.e2e.apiclient import ApiClient
from tests.e2e.stage import Stage

_LINE = 40  # characters of a line of PEM that are more than its head and tail
_SOMETHING = 200  # characters
_KINDS = ("pauses", "scalerequests")


def secrets_of(*tokens: str, keys: Iterable[bytes] = ()) -> list[str]:
    """What to look for: tokens, their signatures alone, and each line of private keys."""
    signatures = [each.rpartition(".")[2] for each in tokens]
    lines = [line for key in keys for line in key.decode().splitlines() if len(line) >= _LINE]
    assert all(tokens), "an empty token is found everywhere"
    return [*tokens, *signatures, *lines]


async def assert_nothing_secret_was_told(
    stage: Stage, *tokens: str, keys: Iterable[bytes] = (), clients: Iterable[ApiClient] = ()
) -> None:
    """Looks for these, and for what is in the kubeconfigs of seed and shoot, in all that the programs have told.

    Logs, metrics, answers of the API, Events, and the objects that they write.
    """
    wanted = secrets_of(*tokens, stage.token, stage.shoot.token, keys=keys)
    places = dict(_logs(stage))
    places |= {f"metrics of {name}": text for name, text in await _metrics(stage)}
    heard = [*clients, *(each.api for each in stage.programs)]
    places["answers"] = "\n".join(text for each in heard for text in each.heard)
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
