"""Two replicas and kubectl write at the same time: nothing is lost, and who meets a change of the same entry is told.

Each request of a replica waits until the script lets it go; what kubectl does, when the watches show it, and which
answers get lost, stands in the script as well. So every order of the requests can come up, and comes up again.
"""

import asyncio
import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.clock import Clock
from app.core.errors import Conflict, EntryChanged, RunInProgress, Unreachable
from app.core.metrics import Metrics
from app.core.model.instants import rfc3339
from app.core.model.overrides import Hold, Pause, Scope, Unreadable
from app.core.model.workloads import Direction
from app.core.overrides.cache import OverrideCache
from app.core.overrides.document import read_key
from app.core.overrides.service import OverrideService
from app.core.overrides.writer import OverrideWriter
from tests.support.overrides import MemoryConfigMap, MemoryStore

NOW = 1_800_000_000.0
KEYS = ("shoot--a", "shoot--b")
SPAN = {"author": "k", "createdAt": rfc3339(NOW), "until": rfc3339(NOW + 600)}
JUNK = ("{", '{"pause": {"scope": "x"}}', '{"hold": {}, "note": "by hand"}')


def unreadable(key, text):
    return text is not None and isinstance(read_key(key, text, NOW), Unreadable)


def part(data, key, kind):
    """The entry as it stands there; the whole text where that cannot be read."""
    text = data.get(key)
    return text if text is None or unreadable(key, text) else json.loads(text).get(kind)


@dataclass
class Recorded(MemoryConfigMap):
    """Keeps who changed what."""

    who: str = "kubectl"
    history: list[tuple[str, dict[str, str], dict[str, str]]] = field(default_factory=list)

    @property
    def data(self):
        return {} if self.document is None else dict(self.document.data)

    def write(self, data):
        before = self.data
        super().write(data)
        self.history.append((self.who, before, self.data))


@dataclass
class Call:
    """What a replica was asked to do."""

    what: str
    key: str
    number: int

    @property
    def kind(self):
        return "pause" if "pause" in self.what else "hold"

    @property
    def operation(self):
        return f"op-{self.number % 3}"

    @property
    def wanted(self):
        """What the entry is to be; only of those who decide on what they saw."""
        base = {**SPAN, "author": "api", "reason": f"r{self.number}"}
        if self.what == "set_pause":
            return {"scope": "all", **base}
        if self.what == "set_hold":
            flow = {"direction": "up", "operation": self.operation}
            return {**base, **flow, "force": False, "done": False}
        return None

    @property
    def decided(self):
        """Whether it stands for a decision about what was there, which somebody else's change makes void."""
        return self.what in {"set_pause", "end_pause", "set_hold", "end_hold"}

    def of(self, service):
        reason, until = f"r{self.number}", NOW + 600
        match self.what:
            case "set_pause":
                return service.set_pause(self.key, Pause(Scope.ALL, reason, "api", NOW, until))
            case "end_pause":
                return service.end_pause(self.key)
            case "set_hold":
                up, name = Direction.UP, self.operation
                hold = Hold(reason, "api", NOW, until, up, name, done=False)
                return service.set_hold(self.key, hold)
            case "finish":
                return service.finish_hold(self.key, self.operation)
            case "end_hold":
                return service.end_hold(self.key)
            case _:
                return service.end_hold(self.key, operation=self.operation)


class Replica:
    """A service whose requests wait to be let go, and what must be true of each of its calls."""

    def __init__(self, name, server):
        self.name, self.server = name, server
        clock = Clock(NOW, lambda: 0.0)
        self.store = MemoryStore(clock, server)
        self.store.held = True
        self.store.before = self._wait
        self.cache = OverrideCache(self.store, clock, Metrics())
        self.service = OverrideService(OverrideWriter(self.store, self.cache), self.cache, clock)
        self.gate: asyncio.Future[None] | None = None
        self.task: asyncio.Task[object] | None = None
        self.outcomes: list[str] = []

    @property
    def texts(self):
        return {key: known.text for key, known in self.cache.knowledge.items()}

    async def _wait(self, what):
        self.gate = asyncio.get_running_loop().create_future()
        await self.gate

    async def start(self, call):
        if self.task is not None:
            return
        self.call: Call = call
        self.began = len(self.server.history)
        self.lost_before = self.store.answers_lost
        seen = {} if self.cache.document is None else self.cache.document.data
        self.basis = part(seen, call.key, call.kind)
        self.server.who = self.name
        self.task = asyncio.ensure_future(call.of(self.service))
        await self._settle(self.task)

    async def go(self):
        if self.gate is not None and not self.gate.done():
            self.server.who = self.name
            self.gate.set_result(None)
            self.gate = None
            assert self.task is not None
            await self._settle(self.task)

    async def _settle(self, task):
        """Until it waits for the next request, or has ended."""
        while self.gate is None and not task.done():  # noqa: ASYNC110 - turn by turn
            await asyncio.sleep(0)
        if task.done():
            self._judge(task.exception())
            self.task = None

    def _judge(self, error):
        mine = [(b, a) for who, b, a in self.server.history[self.began :] if who == self.name]
        mine = [(before, after) for before, after in mine if before != after]
        # Once; or anew, where nobody told it that its write was done, and somebody undid it.
        assert len(mine) <= 1 + self.store.answers_lost - self.lost_before
        for before, after in mine:
            self._judge_write(before, after)
        self.outcomes.append(type(error).__name__ if error else ("wrote" if mine else "nothing"))
        now = part(self.server.data, self.call.key, self.call.kind)
        match error:
            case None:
                assert not self.call.decided or mine or self.call.wanted in (now, self.basis)
                if mine and self.server.history[-1][0] == self.name:
                    assert self.texts == self.server.data  # in force here when the call returns
            case EntryChanged():
                assert self.call.decided
                assert now not in (self.basis, self.call.wanted)
                assert error.now == now
            case RunInProgress(operation=name):
                assert self.call.what == "set_hold"
                assert not mine
                seen = [each for each in (now, self.basis) if isinstance(each, dict)]
                assert (name, False) in [(each["operation"], each["done"]) for each in seen]
                assert name != self.call.operation
            case Conflict() | Unreachable():
                undone = self.store.answers_lost > self.lost_before and now != self.call.wanted
                assert not mine or undone
            case _:
                raise error

    def _judge_write(self, before, after):
        call = self.call
        changed = {k for k in before.keys() | after.keys() if before.get(k) != after.get(k)}
        assert changed == {call.key}
        had, has = part(before, call.key, call.kind), part(after, call.key, call.kind)
        if call.decided:
            assert had == self.basis  # nobody's change of the same entry was written over
            assert has == call.wanted
            if call.what == "set_hold" and had and not unreadable(call.key, before.get(call.key)):
                assert (
                    had["done"] or had["operation"] == call.operation
                )  # no scaling run loses its hold
        else:
            assert had["operation"] == call.operation
            assert has == (None if call.what == "end_flow" else {**had, "done": True})
        if not unreadable(call.key, before.get(call.key)):
            other = "hold" if call.kind == "pause" else "pause"
            assert part(before, call.key, other) == part(after, call.key, other)


class Race:
    def __init__(self):
        self.server = Recorded()
        self.replicas = [Replica("one", self.server), Replica("two", self.server)]

    async def run(self, script):
        for step, which, argument in script:
            await self._step(step, self.replicas[which], argument)
        for replica in self.replicas:
            while replica.task is not None:
                await replica.go()
        for replica in self.replicas:
            replica.store.show()
            assert replica.texts == self.server.data  # who has seen it all knows it as it is
        return [outcome for replica in self.replicas for outcome in replica.outcomes]

    async def _step(self, step, replica, argument):
        match step:
            case "start":
                await replica.start(argument)
            case "go":
                await replica.go()
            case "show":
                replica.store.show(argument)
            case "lose":
                setattr(replica.store, argument, 1)
            case _:
                self.server.who = "kubectl"
                self.server.write(argument(self.server.data))


def changed(key, kind, fields):
    """kubectl edit of one entry of one key."""

    def write(data):
        text = data.get(key)
        parts = {} if text is None or unreadable(key, text) else json.loads(text)
        return {**data, key: json.dumps({**parts, kind: fields})}

    return write


def entry_of(number):
    pause = {"reason": f"k{number}", "scope": "scaleDown", **SPAN}
    hold = {"reason": f"k{number}", "operation": f"op-{number % 3}", "direction": "down", **SPAN}
    return {"pause": pause, "hold": {**hold, "done": False}}


keys, numbers, which = st.sampled_from(KEYS), st.integers(0, 6), st.integers(0, 1)
calls = st.builds(
    Call,
    st.sampled_from(["set_pause", "end_pause", "set_hold", "finish", "end_hold", "end_flow"]),
    keys,
    numbers,
)
edits = st.one_of(
    st.builds(lambda k, n: changed(k, "pause", entry_of(n)["pause"]), keys, numbers),
    st.builds(lambda k, n: changed(k, "hold", entry_of(n)["hold"]), keys, numbers),
    st.builds(lambda k, junk: lambda data: {**data, k: junk}, keys, st.sampled_from(JUNK)),
    st.builds(lambda k: lambda data: {x: t for x, t in data.items() if x != k}, keys),
    st.just(lambda data: None),
    st.builds(lambda k, n: lambda data: {k: json.dumps(entry_of(n))}, keys, numbers),
)
steps = st.one_of(
    st.tuples(st.just("start"), which, calls),
    st.tuples(st.just("start"), which, calls),
    st.tuples(st.just("go"), which, st.none()),
    st.tuples(st.just("go"), which, st.none()),
    st.tuples(st.just("show"), which, st.none() | st.just(1)),
    st.tuples(st.just("kubectl"), which, edits),
    st.tuples(st.just("lose"), which, st.sampled_from(["lost_answers", "lost_requests"])),
)


@pytest.mark.timeout(120)  # a thousand races, on a machine that may be busy
@settings(max_examples=1_000, deadline=None)
@given(st.lists(steps, min_size=5, max_size=40))
def test_nothing_is_lost_and_changes_of_the_same_entry_are_told(script):
    asyncio.run(Race().run(script))


def racing(first, second, edit=None):
    """`first` decides and is overtaken by `second` on the other replica, or by kubectl."""
    overtaking = [("kubectl", 0, edit)] if edit else [("start", 1, second), ("go", 1, None)]
    seed = ("kubectl", 0, changed(KEYS[0], "pause", entry_of(0)["pause"]))
    both = [("show", 0, None), ("show", 1, None)]
    return asyncio.run(Race().run([seed, *both, ("start", 0, first), *overtaking]))


def test_two_who_replace_the_same_pause_write_once():
    found = racing(Call("set_pause", KEYS[0], 1), Call("set_pause", KEYS[0], 2))
    assert found == ["EntryChanged", "wrote"]


def test_two_who_write_different_entries_both_write():
    found = racing(Call("set_pause", KEYS[0], 1), Call("set_hold", KEYS[0], 2))
    assert found == ["wrote", "wrote"]


def test_two_who_write_different_keys_both_write():
    found = racing(Call("set_pause", KEYS[0], 1), Call("set_pause", KEYS[1], 2))
    assert found == ["wrote", "wrote"]


def test_who_is_overtaken_by_a_deletion_of_it_all_is_told():
    assert racing(Call("set_pause", KEYS[0], 1), None, lambda _: None) == ["EntryChanged"]


def test_who_ends_what_was_deleted_has_nothing_left_to_do():
    assert racing(Call("end_pause", KEYS[0], 1), None, lambda _: None) == ["nothing"]


def test_who_is_overtaken_by_junk_is_told():
    junk = racing(Call("end_pause", KEYS[0], 1), None, lambda data: {**data, KEYS[0]: "{"})
    assert junk == ["EntryChanged"]
