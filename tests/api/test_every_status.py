"""Each status that the document names for a call is an answer of that call."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import jsonschema_rs
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api import application as fronts
from app.api.document import REQUESTS
from app.api.health import PATHS as HEALTH
from app.api.health import Check, Health
from app.api.limits import Allowance
from app.api.middleware import MAX_BODY, MAX_HEAD
from app.api.problems import Problem, ProblemType
from app.core.errors import EntryChanged, OperationGone, Refused, RunInProgress, VersionChanged
from app.core.model.scaling_runs import Trigger
from tests.api import facts
from tests.api.facts import KCM, NAMESPACE, POLICY, run
from tests.api.fakes import Identified, World, application
from tests.api.openapi import document, resolved

DOCUMENT = document()
NAMES = {
    "namespace": NAMESPACE,
    "service": "kube-apiserver",
    "kind": KCM.kind,
    "name": KCM.name,
    "id": "op-1",
}


class Named(NamedTuple):
    """An answer that the document names."""

    name: str
    method: str
    path: str
    status: int
    schema: Any

    def __str__(self) -> str:
        return f"{self.name} {self.status}"

    @property
    def url(self) -> str:
        return self.path.format(**NAMES)


def named() -> Iterator[Named]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            for status, shared in operation["responses"].items():
                answer = resolved(DOCUMENT, shared)
                media: dict[str, Any] = next(iter(answer.get("content", {}).values()), {})
                name = operation["operationId"]
                yield Named(name, method.upper(), path, int(status), media.get("schema"))


ALL = list(named())
STREAM = ("streamEvents", 200)
"""It does not end: what it tells is in `tests/api/streaming`."""


class Nobody:
    """Around an application: nobody is known to call."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in HEALTH:
            await self._app(scope, receive, send)
        else:
            problem = Problem(ProblemType.UNAUTHENTICATED, "no token was sent")
            await problem.response(scope["path"])(scope, receive, send)


class Scene(World):
    """A world in which something is made to go wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.unready: list[Check] = []

    def application(self, authentication: Any = Identified, *, local_only: bool = False) -> FastAPI:
        ticks = count()
        app = application(
            self.context(),
            now=lambda: next(ticks) * 1e-6,
            health=Health(ready=self.unready, live=self.unready),
            authentication=authentication,
            local_only=local_only,
        )
        app.state.streams = object()  # there are some; none is opened here
        return app

    def ask(self, asked: Named, **more: Any) -> Any:
        """The call as the document's example has it, save for what is said otherwise."""
        authentication = more.pop("authentication", Identified)
        app = self.application(authentication, local_only=more.pop("local_only", False))
        client = TestClient(app, raise_server_exceptions=False)
        if asked.name in REQUESTS and "content" not in more:
            more.setdefault("json", REQUESTS[asked.name])
        url = more.pop("url", asked.url)
        return client.request(asked.method, url, **more)


# What makes a call answer so.


def well(scene: Scene, asked: Named) -> Any:
    return scene.ask(asked)


def malformed(scene: Scene, asked: Named) -> Any:
    if "{" in asked.path:
        return scene.ask(asked, url=asked.path.format(**dict.fromkeys(NAMES, "a%2Fb")))
    if asked.method == "GET":
        return scene.ask(asked, params={"continue": "nonsense"})
    return scene.ask(asked, content=b"{", headers={"Content-Type": "application/json"})


def unauthenticated(scene: Scene, asked: Named) -> Any:
    return scene.ask(asked, authentication=Nobody)


def forbidden(scene: Scene, asked: Named) -> Any:
    if asked.path in HEALTH:
        return scene.ask(asked, local_only=True, headers={"Host": "elsewhere"})
    scene.authority.refuses = Problem(ProblemType.FORBIDDEN, "no")
    return scene.ask(asked)


def unknown(scene: Scene, asked: Named) -> Any:
    nothing = dict.fromkeys(NAMES, "nothing")
    return scene.ask(asked, url=asked.path.format(**nothing))


def too_large(scene: Scene, asked: Named) -> Any:
    content = b'"' + b"x" * MAX_BODY + b'"'
    return scene.ask(asked, content=content, headers={"Content-Type": "application/json"})


def invalid(scene: Scene, asked: Named) -> Any:
    if asked.name in REQUESTS:
        return scene.ask(asked, json={"nonsense": 1})
    if "{kind}" not in asked.path:
        return scene.ask(asked, params={"nonsense": "1"})
    twice = replace(POLICY.dependents[0], ref=KCM._replace(api_version="apps/v2"))
    policy = replace(POLICY, dependents=(*POLICY.dependents, twice))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(facts, "POLICY", policy)  # which one is meant has to be said then
        return scene.ask(asked)


def too_many(scene: Scene, asked: Named) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fronts, "CALLER", Allowance(rate=1e-6, burst=0, at_once=1))
        return scene.ask(asked)


def huge_head(scene: Scene, asked: Named) -> Any:
    return scene.ask(asked, headers={"X-Junk": "x" * MAX_HEAD})


def away(scene: Scene, asked: Named) -> Any:
    if asked.path in HEALTH:
        scene.unready.append(Check("clusters-synced", lambda: "not listed yet"))
    else:
        scene.authority.refuses = Problem(ProblemType.SEED_AWAY, "nobody can be asked")
    return scene.ask(asked)


GENERAL: dict[int, Callable[[Scene, Named], Any]] = {
    200: well,
    202: well,
    204: well,
    400: malformed,
    401: unauthenticated,
    403: forbidden,
    404: unknown,
    413: too_large,
    422: invalid,
    429: too_many,
    431: huge_head,
    503: away,
}


def planned(scene: Scene, asked: Named) -> Any:
    return scene.ask(asked, json=REQUESTS[asked.name] | {"dryRun": True})


def planned_without_a_body(scene: Scene, asked: Named) -> Any:
    return scene.ask(asked, params={"dryRun": "true"})


def flows_refuse(error: Exception, scene: Scene, asked: Named) -> Any:
    scene.scaling_runs.breaks = error
    return scene.ask(asked)


def automatic(scene: Scene, asked: Named) -> Any:
    scene.scaling_runs.add(run(trigger=Trigger.AUTO))
    return scene.ask(asked)


def weeder_refuses(scene: Scene, asked: Named) -> Any:
    scene.weeders.refuses = Refused("it is not ready")
    return scene.ask(asked)


def somebody_else_changed_it(scene: Scene, asked: Named) -> Any:
    scene.overrides.breaks = EntryChanged("somebody else changed it")
    return scene.ask(asked)


def resources_refuse(error: Exception, scene: Scene, asked: Named) -> Any:
    scene.resources.breaks = error
    return scene.ask(asked)


gone = partial(flows_refuse, OperationGone("of an earlier leader"))
changed = VersionChanged("it has changed")
SPECIAL: dict[tuple[str, int], Callable[[Scene, Named], Any]] = {
    ("scaleShoot", 200): planned,
    ("scaleShoot", 409): partial(flows_refuse, RunInProgress("op-1", "another flow runs")),
    ("scaleShoot", 412): partial(flows_refuse, changed),
    ("probeShoot", 409): partial(flows_refuse, Refused("it is hibernated")),
    ("readOperation", 410): gone,
    ("cancelOperation", 410): gone,
    ("cancelOperation", 409): automatic,
    ("cancelOperation", 200): planned_without_a_body,
    ("weedNow", 200): planned,
    ("resumeShoot", 200): planned_without_a_body,
    ("resumeAllShoots", 200): planned_without_a_body,
    ("endPause", 200): planned_without_a_body,
    ("endPauseOfAll", 200): planned_without_a_body,
    ("endHold", 200): planned_without_a_body,
    ("weedNow", 409): weeder_refuses,
    ("pauseShoot", 409): somebody_else_changed_it,
    ("pauseAllShoots", 409): somebody_else_changed_it,
    ("ignoreResource", 409): partial(resources_refuse, Refused("it is at 0")),
    ("ignoreResource", 412): partial(resources_refuse, changed),
    ("heedResource", 409): partial(resources_refuse, Refused("it changed again and again")),
    ("heedResource", 412): partial(resources_refuse, changed),
}


@pytest.mark.parametrize(
    "asked", [each for each in ALL if (each.name, each.status) != STREAM], ids=str
)
def test_the_call_answers_so(asked):
    provoke = SPECIAL.get((asked.name, asked.status)) or GENERAL[asked.status]
    answer = provoke(Scene(), asked)
    assert answer.status_code == asked.status, answer.text
    if asked.schema not in (None, {}, {"type": "string"}):
        whole = {**asked.schema, "components": DOCUMENT["components"]}
        jsonschema_rs.validate(whole, answer.json())


def test_what_is_provoked_is_what_is_documented():
    assert SPECIAL.keys() <= {(each.name, each.status) for each in ALL}
