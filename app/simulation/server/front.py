"""One API server, of the seed of a world or of a shoot: authenticates, dispatches and answers requests."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

from aiohttp import web

from app.core.errors import ClusterError, Unauthorized, Unreachable
from app.core.model.shoots import Route
from app.simulation.builders import World
from app.simulation.definitions import ServedResource
from app.simulation.identities import Right
from app.simulation.server import rendering
from app.simulation.server.answers import (
    MERGE,
    PATCHES,
    NotAllowed,
    NotServed,
    ServerAnswers,
    body_of,
    hung_up,
)
from app.simulation.server.catalog import SEED_RESOURCES, SHOOT_RESOURCES, Catalog
from app.simulation.server.options import (
    VERBS,
    ListOptions,
    RequestedObject,
    deletion,
    is_strict,
    parse,
)
from app.simulation.server.reading import StoredPage, StoreReader, existing, page_of
from app.simulation.server.streams import Render, StoreWatch, Watching
from app.simulation.server.writing import StoreWriter, WriteRequest
from app.simulation.shoot import VERSION, ShootServer
from app.simulation.store import Object
from app.simulation.traffic import ApiServer, Host, SimulatedRequest

PROBE: Final = "dependency-watchdog-probe"
"""The user of a shoot's token."""
_NOT_IN_BOOKS: Final = frozenset({"Lease", "Event"})
_TABLE: Final = "as=Table"
_PARTIAL: Final = "as=PartialObjectMetadata"

Answer = Callable[[], Any]


class NoSuchPath(Exception):
    """Nothing is served at the path; a real server answers this in plain text, not with a Status."""


class ServerFront:
    """Answers the requests of one API server."""

    def __init__(
        self,
        world: World,
        shoot: ShootServer | None,
        route: Route,
        api: ApiServer,
        users: Mapping[str, str],
        watch_delay: float,
    ) -> None:
        """Serves a shoot by a route, or the seed.

        Args:
            world: where it is.
            shoot: which one; None: the seed.
            route: leads to its server.
            api: what its requests pass.
            users: those of the seed, by their tokens.
            watch_delay: seconds from a change to its delivery by a watch.
        """
        self._world, self._shoot, self._route, self._api = world, shoot, route, api
        self._users, self._watch_delay = users, watch_delay
        self._watches = world.watches
        self._store, self._clock = (world if shoot is None else shoot).store, world.clock
        self._catalog = Catalog(SEED_RESOURCES if shoot is None else SHOOT_RESOURCES, self._store)
        self._answers = ServerAnswers(self._clock.now)
        self._reader = StoreReader(self._store)
        self._writer = StoreWriter(self._store, self._wrote, world.seed_pods.delete)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answers one request; errors of the store and troubles of the server become their HTTP equivalents."""
        page = self._api.page(self._route)
        if page is not None:  # a fault: something in front of the API server answers everything
            return self._answers.page(page)
        try:
            return await self._dispatch(request)
        except NoSuchPath:
            return self._answers.text(404, "404 page not found\n")
        except Unreachable:
            return hung_up(request)
        except ClusterError as error:
            target = parse(request.path)
            return self._answers.failed(error, target and self._find(target), target)

    async def _dispatch(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        user = self._user(request)
        if path.strip("/") == "version":
            await self._api.ask(self._request("get", "version"), lambda: None, consistent=False)
            return self._answers.json(200, rendering.version(VERSION))
        try:
            document = self._catalog.discovered(path)
        except LookupError as error:
            raise self._missing(path) from error
        if document is not None:
            return self._answers.json(200, document)
        return await self._resource(request, user)

    def _user(self, request: web.BaseRequest) -> str:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else ""
        if self._shoot is not None and self._shoot.accepts(token):
            return PROBE
        if self._shoot is not None or token not in self._users:
            raise Unauthorized("Unauthorized", status=401)
        return self._users[token]

    def _find(self, target: RequestedObject) -> ServedResource | None:
        return self._catalog.find(target.group, target.version, target.plural)

    def _missing(self, path: str) -> Exception:
        """Returns the error for a path at which nothing is served."""
        words = [*path.strip("/").split("/"), ""]
        group = "" if words[0] == "api" else words[1]
        return NotServed() if self._catalog.is_built_in(group) else NoSuchPath()

    async def _resource(self, request: web.BaseRequest, user: str) -> web.StreamResponse:
        target = parse(request.path)
        if target is None:
            raise NoSuchPath
        resource = self._find(target)
        if resource is None or (target.part and target.part not in resource.parts):
            raise self._missing(request.path)
        if not resource.stored:
            return await self._review(request, resource)
        if request.method in {"GET", "HEAD"}:
            return await self._read(request, resource, target)
        return await self._write(request, resource, target, user)

    async def _read(
        self, request: web.BaseRequest, resource: ServedResource, target: RequestedObject
    ) -> web.StreamResponse:
        options = ListOptions.parse(request.query)
        _, _, named = options.fields.partition("metadata.name=")
        wanted = (resource.kind, target.name or named)
        for ref, error in () if self._shoot else self._world.unavailable.items():
            if (ref.kind, ref.name) == wanted:
                raise error
        if target.name:
            asked = self._asked("get", target)
            obj = await self._ask(asked, lambda: existing(self._store, resource, target))
            part = rendering.scale if target.part == "scale" else self._render(request, resource)
            return self._answers.json(200, part(obj))
        if options.watch:
            return await self._watch(request, resource, target, options)
        one = target.plural == "leases" and options.limit == 1 and not options.continues
        asked = self._asked("list", target, "contact" if one else "")
        page = await self._ask(
            asked,
            lambda: self._reader.page(resource, target, options),
            consistent=options.version is None,
        )
        return self._answers.json(200, self._list(request, resource, page))

    def _list(self, request: web.BaseRequest, resource: ServedResource, page: StoredPage) -> object:
        accept = request.headers.get("Accept", "")
        if _TABLE in accept:
            return rendering.table(resource, page, self._clock.now())
        return rendering.listed(resource, page, partially=_PARTIAL in accept)

    def _render(self, request: web.BaseRequest, resource: ServedResource) -> Render:
        if _TABLE not in request.headers.get("Accept", ""):
            return lambda obj: rendering.shown(rendering.served(resource, obj))
        return lambda obj: rendering.table(resource, page_of(obj), self._clock.now())

    async def _watch(
        self,
        request: web.BaseRequest,
        resource: ServedResource,
        target: RequestedObject,
        options: ListOptions,
    ) -> web.StreamResponse:
        mute = partial(self._watches.stalled, resource.kind)

        def begin() -> StoreWatch:
            watching = Watching(resource, target, options, self._render(request, resource))
            made = StoreWatch(
                self._store,
                self._clock,
                watching,
                stalled=lambda: not self._api.writable or mute(),
                mute=mute,
                delay=self._watch_delay,
            )
            # At once: the client may hang up before it hears that its watch has begun.
            closed.callback(made.close)
            return made

        closed = ExitStack()
        try:
            stream = await self._ask(self._asked("watch", target), begin, consistent=False)
            response = await self._answers.begun(request)
            with self._watches.serving(resource.kind, stream):
                if self._find(target) is None:  # it went while the watch began
                    stream.end()
                await stream.run(response.write)
            await response.write_eof()
        except ConnectionError:
            return hung_up(request)
        finally:
            closed.close()
        return response

    async def _write(
        self, request: web.BaseRequest, resource: ServedResource, target: RequestedObject, user: str
    ) -> web.StreamResponse:
        verb = VERBS.get(request.method, "")
        fits = bool(target.name) is (verb != "create") and not (verb == "delete" and target.part)
        if verb not in resource.verbs or not fits:
            raise NotAllowed
        body = await body_of(request, PATCHES if resource.kind in rendering.TYPED else (MERGE,))
        strict = is_strict(request.query)
        wanted = WriteRequest(verb, resource, target, body, user, self._clock.now(), strict=strict)
        asked = self._asked(verb, target)
        if verb == "delete":
            how = deletion(body, request.query)
            made = await self._ask(asked, lambda: self._writer.delete(wanted, how))
            return self._answers.json(200, rendering.deleted(resource, made))
        code, changed = await self._ask(asked, lambda: self._writer.write(wanted))
        part = rendering.scale if target.part == "scale" else rendering.shown
        return self._answers.json(code, part(changed))

    async def _review(
        self, request: web.BaseRequest, resource: ServedResource
    ) -> web.StreamResponse:
        if request.method != "POST":
            raise NotAllowed
        spec = (await body_of(request)).get("spec") or {}
        answer = partial(self._world.identities.review, resource.kind, spec, self._may)
        status = await self._ask(self._request("create", resource.plural), answer)
        told = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": {}}
        return self._answers.json(201, {**told, "spec": spec, "status": status})

    def _may(self, right: Right) -> bool:
        """Returns whether clients have a permission: all of them have those that no trouble takes away."""
        return not self._api.forbids(self._request(right.verb, right.resource))

    def _wrote(self, at: float, obj: Object, patch: Object, by: str, verb: str) -> None:
        """Records a write of a client; none is made to a shoot."""
        if obj["kind"] not in _NOT_IN_BOOKS:
            self._world.journal.enter(at, obj, patch, by, verb)

    async def _ask(self, asked: SimulatedRequest, serve: Answer, *, consistent: bool = True) -> Any:  # noqa: ANN401 - whatever `serve` makes
        def served() -> Any:  # noqa: ANN401 - see above
            if self._shoot is not None:
                self._shoot.advance()
            return serve()

        return await self._api.ask(asked, served, consistent=consistent)

    def _asked(self, verb: str, target: RequestedObject, what: str = "") -> SimulatedRequest:
        named = what or target.plural + (f"/{target.part}" if target.part else "")
        return self._request(verb, named, target.namespace or target.name)

    def _request(self, verb: str, what: str, namespace: str = "") -> SimulatedRequest:
        """Returns what is counted: a request to a shoot under its control-plane namespace."""
        if self._shoot is None:
            return SimulatedRequest(Host.SEED, verb, what, namespace, self._route)
        return SimulatedRequest(Host.SHOOT, verb, what, self._shoot.namespace, self._route)
