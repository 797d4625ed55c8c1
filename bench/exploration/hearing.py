"""Takes Pauses and ScaleRequests out of the bytes that a process receives, so that it is known what it was told."""

import json
from collections.abc import Iterator
from typing import Any, Final

from app.simulation.server.options import RequestedObject
from bench.exploration.wishes import KINDS, Told

_OK: Final = frozenset({200, 201})
_REFUSED: Final = frozenset({403, 404})


class Hearing:
    """All that one process hears of the overrides."""

    def __init__(self, told: Told) -> None:
        self.told = told
        self._pages: dict[tuple[str, str], list[Any]] = {}
        """The pages of lists so far, by resource and namespace."""

    def answer_to(
        self, verb: str, target: RequestedObject | None, *, more: bool
    ) -> "Answer | None":
        """What will hear the answer to a request; None if that is about something else."""
        if target is None or target.plural not in KINDS:
            return None
        return Answer(self, verb, target, more=more)

    def whole(self, answer: "Answer", status: int, body: Any) -> None:  # noqa: ANN401  any JSON
        """An answer is complete."""
        target, told = answer.target, self.told
        kind, namespace = KINDS[target.plural], target.namespace
        if answer.verb == "list" and status in _OK:
            self._page(answer, body)
        elif answer.verb in {"list", "watch"}:
            if status in _REFUSED:
                told.refused(target.plural)
        elif status in _OK and answer.verb != "delete":
            told.answered(body)
        elif status == 404 or (status in _OK and answer.verb == "delete"):
            told.absent(kind, namespace, target.name)

    def _page(self, answer: "Answer", body: Any) -> None:  # noqa: ANN401  any JSON
        """A list counts when its last page is there."""
        place = (answer.target.plural, answer.target.namespace)
        before = self._pages.pop(place, []) if answer.more else []
        items = [*before, *body["items"]]
        if body["metadata"].get("continue"):
            self._pages[place] = items
        else:
            self.told.listed(*place, items)

    def event(self, line: bytes) -> None:
        """A watch shows something."""
        found = json.loads(line)
        if found["type"] in {"ADDED", "MODIFIED"}:
            self.told.shown(found["object"])
        elif found["type"] == "DELETED":
            self.told.gone(found["object"]["metadata"]["uid"])


class Answer:
    """The answer to one request, as its bytes arrive."""

    def __init__(self, hearing: Hearing, verb: str, target: RequestedObject, *, more: bool) -> None:
        self.verb, self.target, self.more = verb, target, more
        self._hearing = hearing
        self._bytes = b""
        self._status: int | None = None
        self._length: int | None = None
        """None: it comes in chunks."""
        self._body = b""
        self._over = False

    def take(self, data: bytes) -> None:
        """So much more of it has arrived."""
        self._bytes += data
        if self._status is None and not self._head():
            return
        if self._over:
            return
        if self._length is None:
            for chunk in self._chunks():
                self._body += chunk
        else:
            self._body, self._bytes = self._body + self._bytes, b""
            self._over = len(self._body) >= self._length
        if self.verb == "watch" and self._status == 200:
            *lines, self._body = self._body.split(b"\n")
            for line in lines:
                self._hearing.event(line)
        elif self._over:
            self._whole()

    def _head(self) -> bool:
        head, found, rest = self._bytes.partition(b"\r\n\r\n")
        if not found:
            return False
        first, *lines = head.decode("latin-1").lower().split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines)
        chunked = fields.get("transfer-encoding") == "chunked"
        self._status, self._bytes = int(first.split(" ")[1]), rest
        self._length = None if chunked else int(fields.get("content-length", "0"))
        return True

    def _chunks(self) -> Iterator[bytes]:
        while True:
            size, found, rest = self._bytes.partition(b"\r\n")
            if not found or len(rest) < int(size, 16) + 2:
                return
            length = int(size, 16)
            chunk, self._bytes = rest[:length], rest[length + 2 :]
            if not chunk:
                self._over = True
                return
            yield chunk

    def _whole(self) -> None:
        try:
            body = json.loads(self._body)
        except ValueError:
            body = None  # a page of something in between, or a path that is not served
        status = self._status
        if status is not None and (status in _REFUSED or isinstance(body, dict)):
            self._hearing.whole(self, status, body)
