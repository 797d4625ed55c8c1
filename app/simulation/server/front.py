"""The HTTP front end of one API server: authenticates, dispatches and answers requests."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

from aiohttp import web

from app.core.errors import ClusterError, Forbidden, Unreachable
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
from app.simulation.server.catalog import ServedResource
from app.simulation.server.options import (
    VERBS,
    ListOptions,
    RequestedObject,
    deletion,
    is_strict,
    parse,
)
from app.simulation.server.premise import Premise
from app.simulation.server.reading import StoredPage, StoreReader, existing, key_of
from app.simulation.server.reviewing import ServerReviews
from app.simulation.server.streams import StoreWatch, TooSlow, Watching
from app.simulation.server.writing import StoreWriter, WriteRequest
from app.simulation.shoot import VERSION
from app.simulation.store import Object, version_of
from app.simulation.traffic import Host, SimulatedRequest

ANONYMOUS: Final = "system:anonymous"
_TABLE: Final = "as=Table"
_PARTIAL: Final = "as=PartialObjectMetadata"
_TOLD_TO_ANYBODY: Final = frozenset({"version", "healthz", "livez", "readyz"})

Answer = Callable[[], Any]


class NoSuchPath(Exception):
    """Nothing is served at the path; a real server answers this in plain text, not with a Status."""


class ServerFront:
    """Answers the requests of one API server."""

    def __init__(self, premise: Premise) -> None:
        self._premise = premise
        self._answers = ServerAnswers(premise.clock.now)
        self._reader = StoreReader(premise.store)
        self._reviews = ServerReviews(premise)
        self._writer = StoreWriter(premise.store, premise.wrote, premise.delete)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answers one request; errors of the store and troubles of the server become their HTTP equivalents."""
        page = self._premise.api.page(self._premise.route)
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
        premise, path = self._premise, request.path
        user = self._user(request)
        if (what := path.strip("/")) in _TOLD_TO_ANYBODY:
            asked = SimulatedRequest(premise.host, "get", what, self._place(""), premise.route)
            await premise.api.ask(asked, lambda: None, consistent=False)
            if what == "version":
                return self._answers.json(200, rendering.version(VERSION))
            return self._answers.text(200, "ok")
        if user == ANONYMOUS:
            raise self._forbidden(request, user)
        try:
            document = premise.catalog.discovered(path)
        except LookupError as error:
            raise self._missing(path) from error
        if document is not None:
            return self._answers.json(200, document)
        return await self._resource(request, user)

    def _user(self, request: web.BaseRequest) -> str:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if not scheme:
            return ANONYMOUS
        return self._premise.user_of(token.strip() if scheme.lower() == "bearer" else "")

    def _forbidden(self, request: web.BaseRequest, user: str) -> Forbidden:
        target = parse(request.path)
        resource = target and self._find(target)
        method = request.method.lower()
        if target is None or resource is None:
            message = f'forbidden: User "{user}" cannot {method} path "{request.path}"'
            return Forbidden(message, status=403)
        verb = VERBS.get(request.method) or ("get" if target.name else "list")
        return Forbidden(
            f'{resource.title} is forbidden: User "{user}" cannot {verb} resource '
            f'"{resource.plural}" in API group "{resource.group}" in the namespace '
            f'"{target.namespace}"',
            status=403,
        )

    def _find(self, target: RequestedObject) -> ServedResource | None:
        return self._premise.catalog.find(target.group, target.version, target.plural)

    def _missing(self, path: str) -> Exception:
        """Returns the error for a path at which nothing is served."""
        words = [*path.strip("/").split("/"), ""]
        group = "" if words[0] == "api" else words[1]
        return NotServed() if self._premise.catalog.is_built_in(group) else NoSuchPath()

    async def _resource(self, request: web.BaseRequest, user: str) -> web.StreamResponse:
        target = parse(request.path)
        if target is None:
            raise NoSuchPath
        resource = self._find(target)
        if resource is None or (target.part and target.part not in resource.parts):
            raise self._missing(request.path)
        if not resource.stored or target.part == "token":
            return await self._review(request, resource, target, user)
        if request.method in {"GET", "HEAD"}:
            return await self._read(request, resource, target)
        return await self._write(request, resource, target, user)

    async def _read(
        self, request: web.BaseRequest, resource: ServedResource, target: RequestedObject
    ) -> web.StreamResponse:
        options = ListOptions.parse(request.query)
        _, _, named = options.fields.partition("metadata.name=")
        error = self._premise.unavailable(resource.kind, target.name or named)
        if error is not None:
            raise error
        if target.name:
            asked = self._asked("get", target)
            obj = await self._ask(asked, lambda: existing(self._premise.store, resource, target))
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
            return rendering.table(
                resource, page.items, self._premise.clock.now(), page.version, page.continues
            )
        return rendering.listed(resource, page, partially=_PARTIAL in accept)

    def _render(
        self, request: web.BaseRequest, resource: ServedResource
    ) -> Callable[[Object], dict[str, Any]]:
        accept = request.headers.get("Accept", "")
        if _TABLE in accept:
            return lambda obj: rendering.table(
                resource, (obj,), self._premise.clock.now(), version_of(obj)
            )
        if _PARTIAL in accept:
            return rendering.partial
        return lambda obj: rendering.shown(rendering.served(resource, obj))

    async def _watch(
        self,
        request: web.BaseRequest,
        resource: ServedResource,
        target: RequestedObject,
        options: ListOptions,
    ) -> web.StreamResponse:
        premise = self._premise

        def stalled() -> bool:
            return not premise.api.writable or premise.stalled(resource.kind)

        def begin() -> StoreWatch:
            watching = Watching(resource, target, options, self._render(request, resource))
            mute = partial(premise.stalled, resource.kind)
            made = StoreWatch(
                premise.store, premise.clock, watching, stalled, mute, premise.watch_delay
            )
            # At once: the client may hang up before it hears that its watch has begun.
            closed.callback(made.close)
            return made

        closed = ExitStack()
        try:
            stream = await self._ask(self._asked("watch", target), begin, consistent=False)
            response = await self._answers.begun(request)
            with premise.serving(resource.kind, stream):
                if self._find(target) is None:  # it went while the watch began
                    stream.end()
                await stream.run(response.write)
            await response.write_eof()
        except (TooSlow, ConnectionError):
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
        strict = is_strict(request.query, verb)
        wanted = WriteRequest(
            verb, resource, target, body, user, self._premise.clock.now(), strict=strict
        )
        asked = self._asked(verb, target)
        if verb == "delete":
            how = deletion(body, request.query)
            made = await self._ask(asked, lambda: self._writer.delete(wanted, how))
            return self._answers.json(200, rendering.deleted(resource, made.object))
        code, changed = await self._ask(asked, lambda: self._writer.write(wanted))
        part = rendering.scale if target.part == "scale" else rendering.shown
        return self._answers.json(code, part(changed))

    async def _review(
        self, request: web.BaseRequest, resource: ServedResource, target: RequestedObject, user: str
    ) -> web.StreamResponse:
        """Answers a review, or a TokenRequest for a ServiceAccount."""
        if request.method != "POST":
            raise NotAllowed
        body = await body_of(request)
        if resource.stored:
            account = key_of(resource, target)
            asked, answer = self._asked("create", target), self._reviews.minted
            found = await self._ask(asked, partial(answer, account, user, body))
        else:
            asked = SimulatedRequest(self._premise.host, "create", resource.plural)
            found = await self._ask(asked, partial(self._reviews.answer, resource, user, body))
        return self._answers.json(201, found)

    async def _ask(self, asked: SimulatedRequest, serve: Answer, *, consistent: bool = True) -> Any:  # noqa: ANN401 - whatever `serve` makes
        def served() -> Any:  # noqa: ANN401 - see above
            self._premise.advance()
            return serve()

        return await self._premise.api.ask(asked, served, consistent=consistent)

    def _asked(self, verb: str, target: RequestedObject, what: str = "") -> SimulatedRequest:
        named = what or target.plural + (f"/{target.part}" if target.part else "")
        place = target.namespace or target.name
        premise = self._premise
        return SimulatedRequest(premise.host, verb, named, self._place(place), premise.route)

    def _place(self, namespace: str) -> str:
        """Returns the namespace under which a request is counted: for a shoot, its control-plane namespace."""
        return namespace if self._premise.host is Host.SEED else self._premise.name
