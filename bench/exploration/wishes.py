"""What people asked for with Pauses and ScaleRequests, read here once more, and what each process was told of it.

Nothing of `app.core.overrides` is used, nor of the decoding: the invariants are held against this. What a process was
told are the objects in the bytes that reached it (`hearing`); whether one is still there, the store knows.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from app.simulation.store import Object, ObjectKey, Store

HOME: Final = "garden"
"""A Pause in the watchdog's own namespace is of all shoots."""
KINDS: Final[Mapping[str, str]] = {"pauses": "Pause", "scalerequests": "ScaleRequest"}
_DAY: Final = 86_400.0
_UNREAD: Final = 60.0
"""So long after its start a process may take overrides that it could not read for none, seconds (4.1, Synced)."""
_IN_EARNEST: Final = 3
"""Refusals."""
_RELEASE: Final = "release-"
"""How the names of ScaleRequests of our own begin."""
_OPEN: Final = frozenset({"Pending", "Running"})
_HOLDING: Final = frozenset({"Succeeded", "Failed", "Cancelled"})
_OF_UP: Final = frozenset({"Succeeded"})
"""The ends that hold for a while."""
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0}
_PARTS: Final = re.compile(r"([0-9.]+)(ms|s|m|h)")


@dataclass(frozen=True, slots=True)
class Pausing:
    """Somebody wants us to keep our hands off."""

    everything: bool
    """Both directions; else only scaling down."""
    until: float


@dataclass(frozen=True, slots=True)
class Order:
    """Somebody scales by hand, and wants that to stay for a while."""

    down: bool
    force: bool
    phase: str
    held_until: float
    """When the hold ends that follows the end of the scaling run."""

    @property
    def open(self) -> bool:
        """Whether it is to be carried out, or being carried out."""
        return self.phase in _OPEN

    def holds(self, now: float, *, surely: bool) -> bool:
        """Whether verdicts are not acted on, for sure or perhaps.

        Of an Up that was cancelled the rules do not say; one that failed may hold where only pods did not come.
        """
        if self.open:
            return True
        holding = _HOLDING if self.down else _OF_UP
        return self.phase in (holding if surely else _HOLDING) and now < self.held_until


@dataclass(frozen=True, slots=True)
class Wish:
    """A Pause or a ScaleRequest, as it is at one version."""

    key: ObjectKey
    uid: str
    version: int
    created: float
    seen: float
    """When this version was seen."""
    pausing: Pausing | None = None
    order: Order | None = None

    def concerns(self, namespace: str) -> bool:
        """Whether it is about this shoot."""
        of_all = self.pausing is not None and self.key.namespace == HOME
        return of_all or self.key.namespace == namespace

    def in_force(self, now: float) -> bool:
        """Whether it pauses or may hold something."""
        if self.order is not None:
            return self.order.holds(now, surely=False)
        return self.pausing is not None and now < self.pausing.until


def read(obj: Object, seen: float) -> Wish:
    """What an object says."""
    metadata, spec = obj["metadata"], obj["spec"]
    key = ObjectKey(obj["kind"], metadata["namespace"], metadata["name"])
    created = _instant(metadata["creationTimestamp"])
    version = int(metadata["resourceVersion"])
    if key.kind == "Pause":
        pausing = _pausing(spec, created)
        return Wish(key, metadata["uid"], version, created, seen, pausing)
    order = _order(spec, obj.get("status") or {}, created)
    if key.name.startswith(
        _RELEASE
    ):  # of our own (`maxProtectionDuration`): forced against the verdict alone
        order = replace(order, force=False)
    return Wish(key, metadata["uid"], version, created, seen, None, order)


def _pausing(spec: Mapping[str, Any], created: float) -> Pausing:
    """A scope that we do not know was made for a newer version: it pauses everything, for a day."""
    if spec["scope"] not in {"all", "scaleDown"}:
        return Pausing(everything=True, until=created + _DAY)
    until = created + _DAY if spec.get("until") is None else _instant(spec["until"])
    return Pausing(spec["scope"] == "all", until)


def _order(spec: Mapping[str, Any], status: Mapping[str, Any], created: float) -> Order:
    ended = _instant(status["endedAt"]) if status.get("endedAt") else created
    until = _instant(status["holdUntil"]) if status.get("holdUntil") else ended + _hold(spec)
    phase = status.get("phase") or "Pending"
    return Order(spec["direction"] == "Down", bool(spec.get("force")), phase, until)


def _hold(spec: Mapping[str, Any]) -> float:
    return math.fsum(float(n) * _SECONDS[unit] for n, unit in _PARTS.findall(spec["hold"]))


def _instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def all_wishes(store: Store, now: float) -> list[Wish]:
    """The Pauses and ScaleRequests as they truly are."""
    return [read(obj, now) for kind in KINDS.values() for obj in store.list(kind)]


def in_force(wishes: Iterable[Wish], namespace: str, now: float) -> bool:
    """Whether a shoot is paused or held."""
    return any(each.concerns(namespace) and each.in_force(now) for each in wishes)


@dataclass(slots=True)
class Told:
    """What one process was told of the overrides: by its lists and watches, and by the answers to its requests."""

    now: Callable[[], float]
    store: Store
    """What truly is: an object that is gone binds nobody, though nobody may have been told."""
    started: float
    needed: Collection[str] = tuple(KINDS)
    """The resources that it looks at; the weeder looks at Pauses alone."""
    known_kinds: set[str] = field(default_factory=set)
    """The resources that were listed, or that it may not read or cannot."""
    wishes: dict[str, Wish] = field(default_factory=dict)
    """By uid: as the process knows each last."""
    _gone: dict[str, float] = field(default_factory=dict)
    """When it was told that an object is gone, by uid."""
    _refusals: list[str] = field(default_factory=list)
    _shown: set[str] = field(default_factory=set)
    """The uids that a list or watch has shown."""

    # What it is told.

    def shown(self, obj: Object) -> None:
        """A watch shows an object."""
        self._shown.add(obj["metadata"]["uid"])
        self.answered(obj)

    def answered(self, obj: Object) -> None:
        """An answer shows an object."""
        wish = read(obj, self.now())
        before = self.wishes.get(wish.uid)
        if before is None or before.version < wish.version:
            self.wishes[wish.uid] = wish

    def gone(self, uid: str) -> None:
        """A watch shows the end of an object."""
        self._gone.setdefault(uid, self.now())

    def absent(self, kind: str, namespace: str, name: str) -> None:
        """An answer says that there is no object of this name, and that is so."""
        for uid, wish in self.wishes.items():
            if wish.key == (kind, namespace, name) and not self._there(wish):
                self.gone(uid)

    def listed(self, resource: str, namespace: str, items: Collection[Object]) -> None:
        """A list is complete; `namespace` is empty for all."""
        kind = KINDS[resource]
        for each in items:
            self.shown({**each, "kind": kind})
        there = {each["metadata"]["uid"] for each in items}
        for uid in self._shown - there:
            wish = self.wishes[uid]
            here = wish.key.kind == kind and namespace in {"", wish.key.namespace}
            if here and not self._there(wish):
                self.gone(uid)
        if not namespace:
            self.known_kinds.add(resource)

    def refused(self, resource: str) -> None:
        """It may not read these, or nobody serves them: in earnest if it is told so again and again."""
        self._refusals.append(resource)
        if self._refusals.count(resource) >= _IN_EARNEST:
            self.known_kinds.add(resource)

    # What follows from it.

    def _there(self, wish: Wish) -> bool:
        found = self.store.find(wish.key)
        return found is not None and found["metadata"]["uid"] == wish.uid

    def known(self, now: float) -> bool:
        """Whether it may act: it has read them, or may take them for none (4.1, Synced)."""
        return self.known_kinds >= set(self.needed) or now - self.started >= _UNREAD

    def pause(self, namespace: str, now: float, *, down: bool) -> str | None:
        """The Pause that surely forbids to scale this way, of which it was told before this instant."""
        for wish in self._binding(namespace, now):
            pausing = wish.pausing
            if pausing is not None and now < pausing.until and (down or pausing.everything):
                return f"{wish.key.namespace}/{wish.key.name}"
        return None

    def held(self, namespace: str, now: float) -> str | None:
        """The ScaleRequest whose hold is surely in force, of which it was told before this instant."""
        for wish in self._binding(namespace, now):
            if wish.order is not None and wish.order.holds(now, surely=True):
                return f"{wish.key.namespace}/{wish.key.name}"
        return None

    def _binding(self, namespace: str, now: float) -> Iterator[Wish]:
        """What it was told before this instant, and is still so."""
        for uid, wish in self.wishes.items():
            told = wish.seen < now and uid not in self._gone
            if told and wish.concerns(namespace) and self._there(wish):
                yield wish

    def orders(self, namespace: str, now: float) -> list[Wish]:
        """The ScaleRequests of a shoot of whose end it was not told before this instant."""
        return [
            wish
            for uid, wish in self.wishes.items()
            if wish.order is not None
            and (wish.order.open or wish.seen >= now)
            and wish.key.namespace == namespace
            and self._gone.get(uid, now) >= now
        ]

    def may_bind(self, namespace: str, now: float) -> bool:
        """Whether it may take the shoot for paused or held."""
        left = (wish for uid, wish in self.wishes.items() if uid not in self._gone)
        return in_force(left, namespace, now)
