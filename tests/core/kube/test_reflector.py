"""What watches die of, and what becomes of the copy; on virtual time, against a script."""

import asyncio
import json
from contextlib import asynccontextmanager
from random import Random
from typing import Any, cast
from unittest.mock import ANY

import msgspec
import pytest

from app.core.clock import Clock
from app.core.errors import (
    BadAnswer,
    Expired,
    Forbidden,
    LimitExceeded,
    NotFound,
    ServerFault,
    Throttled,
    Unauthorized,
    Unreachable,
)
from app.core.kube.client import WatchSilent
from app.core.kube.decoding import seed_objects
from app.core.kube.reflector import Reflector
from app.core.kube.resources import SECRETS, WatchSource
from app.core.kube.seed_api import Budget
from app.core.metrics import Metrics

FOREVER = 10**9
"""Seconds for which a path passes nothing of a watch."""
ENDS = "the end that the server sends in its time"


def secret(name, version, content="YQ=="):
    return {
        "metadata": {"name": "kubeconfig", "namespace": name, "resourceVersion": str(version)},
        "data": {"kubeconfig": content},
    }


def page(*items, version=10, more=""):
    return {
        "kind": "SecretList",
        "metadata": {"resourceVersion": str(version), "continue": more},
        "items": list(items),
    }


def event(kind, thing):
    return json.dumps({"type": kind, "object": thing}).encode()


def bookmark(version):
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


class Script:
    """A seed that answers as it is told: lists and watches are taken from two queues, the last one for ever."""

    def __init__(self, lists, watches, delay=0.0):
        self.lists, self.watches, self.delay = list(lists), list(watches), delay
        self.clock, self.metrics = Clock.of_loop(), Metrics()
        self.restored_at = float("-inf")
        self.asked = []
        self.asked_at = []
        self.budgets = []

    def _next(self, queue):
        return queue.pop(0) if len(queue) > 1 else queue[0]

    def _note(self, request, budget):
        self.asked.append(request)
        self.asked_at.append(asyncio.get_running_loop().time())
        self.budgets.append(budget)

    async def call(self, request, decode, budget=Budget.NORMAL):
        self._note(request, budget)
        answer = self._next(self.lists)
        await asyncio.sleep(self.delay)
        if isinstance(answer, Exception):
            raise answer
        try:
            return decode(json.dumps(answer).encode())
        except msgspec.MsgspecError as error:  # as the client does
            raise BadAnswer(str(error)) from error

    @asynccontextmanager
    async def watch(self, request, *, silence, budget):
        self._note(request, budget)
        steps = self._next(self.watches)
        if isinstance(steps, Exception):
            raise steps
        yield self._play(steps, silence, int(request.params["timeoutSeconds"]))

    async def _play(self, steps, silence, timeout):
        for step in steps:
            match step:
                case str():
                    await asyncio.sleep(timeout)
                    return
                case bytes():
                    yield step
                case Exception():
                    raise step
                case seconds:
                    await asyncio.sleep(min(seconds, silence))
                    if seconds > silence:
                        raise WatchSilent("nothing was heard")

    def verbs(self):
        return ["watch" if "watch" in each.params else "list" for each in self.asked]

    def versions(self):
        return [each.params.get("resourceVersion") for each in self.asked]


class Watcher:
    """A reflector over a script, running beside the test."""

    def __init__(self, script, source):
        self.script = script
        self.changes: list[str] = []
        self.refusals: list[str | None] = []
        self.clock, self.metrics = script.clock, script.metrics
        self.reflector: Reflector[Any] = Reflector(
            source,
            cast("Any", script),
            Random(1),
            lambda namespace, name: self.changes.append(namespace),
            refusal_changed=lambda: self.refusals.append(self.reflector.forbidden),
        )

    async def __aenter__(self):
        self.task = asyncio.ensure_future(self.reflector.run())
        return self

    async def __aexit__(self, *_):
        assert not self.task.done()
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def version_of(self, namespace):
        found = self.reflector.of(namespace).get("kubeconfig")
        return found and found.resource_version

    def restarts(self, reason):
        labels = {"kind": "secrets", "reason": reason}
        return self.metrics.registry.get_sample_value("dwd_watch_restarts_total", labels) or 0

    @property
    def silent_for(self):
        contact = self.reflector.state.last_contact
        return float("inf") if contact is None else self.clock.now() - contact


def watching(lists, watches, **more):
    """A reflector of Secrets."""
    source = WatchSource(SECRETS, seed_objects.secret, name="kubeconfig", **more)
    return Watcher(Script(lists, watches), source)


QUIET = [60, bookmark(11)] * 10


async def test_a_list_fills_the_copy_and_events_keep_it_true():
    events = [
        1,
        event("ADDED", secret("c", 11)),
        event("MODIFIED", secret("a", 12)),
        event("DELETED", secret("b", 13)),
        FOREVER,
    ]
    async with watching([page(secret("a", 1), secret("b", 2))], [events]) as watcher:
        assert not watcher.reflector.state.synced
        assert watcher.reflector.state.last_contact is None
        await asyncio.sleep(0.5)
        assert watcher.reflector.state.synced
        assert sorted(watcher.changes) == ["a", "b"]
        await asyncio.sleep(1)
        assert [watcher.version_of(x) for x in "abc"] == ["12", None, "11"]
        assert watcher.changes[2:] == ["c", "a", "b"]


async def test_only_the_named_object_is_asked_for_in_pages_and_consistently():
    async with watching([page(more="x"), page()], [[FOREVER]], page=7) as watcher:
        await asyncio.sleep(1)
        first, second, watch = watcher.script.asked
        assert first.params == {"fieldSelector": "metadata.name=kubeconfig", "limit": "7"}
        assert second.params == first.params | {"continue": "x"}
        assert 45 <= int(watch.params["timeoutSeconds"]) <= 60
        assert watch.params["allowWatchBookmarks"] == "true"
        assert watch.params["fieldSelector"] == "metadata.name=kubeconfig"


async def test_a_watch_goes_on_where_it_ended():
    watches = [[10, event("ADDED", secret("a", 21)), 10], [10, bookmark(30), 10], [FOREVER]]
    async with watching([page(version=20)], watches) as watcher:
        await asyncio.sleep(60)
        assert watcher.script.verbs() == ["list", "watch", "watch", "watch"]
        assert watcher.script.versions() == [None, "20", "21", "30"]
        assert watcher.metrics.registry.get_sample_value(
            "dwd_watch_last_contact_timestamp_seconds", {"kind": "secrets"}
        )


EXPIRED_EVENT = event("ERROR", {"kind": "Status", "code": 410, "message": "too old"})


@pytest.mark.parametrize("gone", [Expired("410"), [EXPIRED_EVENT], [10, EXPIRED_EVENT]])
async def test_a_version_that_is_too_old_means_a_new_list_and_what_vanished_is_told(gone):
    lists = [page(secret("a", 1), secret("b", 2)), page(secret("b", 2), secret("c", 3), version=50)]
    async with watching(lists, [gone, [FOREVER]]) as watcher:
        await asyncio.sleep(30)
        assert watcher.script.verbs() == ["list", "watch", "list", "watch"]
        assert watcher.script.versions()[-1] == "50"
        assert [watcher.version_of(x) for x in "abc"] == [None, "2", "3"]
        assert sorted(watcher.changes[2:]) == ["a", "c"]
        assert watcher.restarts("Expired") == 1


@pytest.mark.parametrize(
    "always",
    [
        [],
        [EXPIRED_EVENT],
        Expired("410"),
        Unreachable("refused"),
        ServerFault("500"),
        [b"<html>"],
        [event("WHAT", {})],
        [event("ADDED", {"no": "metadata"})],
        [event("ERROR", {"code": "x"})],
        [bookmark(11)],
    ],
)
async def test_a_server_that_is_never_well_is_asked_at_a_bearable_rate(always):
    async with watching([page()], [always]) as watcher:
        await asyncio.sleep(4)
        assert len(watcher.script.asked) <= 10
        await asyncio.sleep(596)
        assert 20 <= len(watcher.script.asked) <= 100
        assert watcher.reflector.trouble is not None


async def test_a_list_that_breaks_in_its_middle_changes_nothing():
    lists = [
        page(secret("a", 1)),
        page(secret("b", 2), more="x"),
        Unreachable("cut"),
        page(secret("c", 3)),
    ]
    async with watching(lists, [[EXPIRED_EVENT], [FOREVER]]) as watcher:
        await asyncio.sleep(0.01)
        while len(watcher.script.asked) < 4:
            assert watcher.version_of("a") == "1"
            await asyncio.sleep(0.1)
        assert watcher.version_of("b") is None
        await asyncio.sleep(10)
        assert [watcher.version_of(x) for x in "abc"] == [None, None, "3"]


async def test_a_list_is_no_contact_before_its_last_page_as_until_then_the_old_copy_is_shown():
    lists = [page(), *[page(secret("a", 1), more="x"), Unreachable("cut")] * 60, page()]
    async with watching(lists, [[EXPIRED_EVENT], [FOREVER]]) as watcher:
        await asyncio.sleep(120)
        assert watcher.reflector.state.stale(watcher.clock.now())


async def test_a_quiet_watch_with_bookmarks_is_not_disturbed():
    async with watching([page()], [QUIET]) as watcher:
        await asyncio.sleep(590)
        assert watcher.script.verbs() == ["list", "watch"]
        assert watcher.silent_for <= 60


async def test_a_quiet_watch_is_in_contact_by_the_ends_that_the_server_sends():
    async with watching([page()], [[ENDS]]) as watcher:
        longest = 0.0
        for _ in range(600):
            await asyncio.sleep(1)
            longest = max(longest, watcher.silent_for)
        assert longest <= 60
        assert watcher.script.verbs().count("list") == 1


@pytest.mark.parametrize("away", [0, 5], ids=["", "and lists fail meanwhile"])
async def test_what_is_gone_is_known_after_ten_minutes_where_watches_end_in_time_and_bring_nothing(
    away,
):
    """A proxy may end watches in time and pass on none of their events."""
    lists = [page(secret("a", 1)), *[Unreachable("no answer")] * away, page(version=50)]
    async with watching(lists, [[ENDS]]) as watcher:
        await asyncio.sleep(9 * 60)
        assert watcher.version_of("a") == "1"
        longest = 0.0
        for _ in range((2 + 2 * away) * 60):
            await asyncio.sleep(1)
            longest = max(longest, watcher.silent_for)
        assert longest < 90, "it is followed all the same"
        assert watcher.version_of("a") is None


async def test_after_a_restore_of_the_storage_all_is_listed_anew_when_the_watch_ends():
    """Its resourceVersions went back: a watch from the former one shows nothing for as long as they take to return."""
    lists = [page(secret("a", 1), version=90), page(secret("a", 2), version=50)]
    async with watching(lists, [[20, Unreachable("cut")], [ENDS]]) as watcher:
        await asyncio.sleep(25)
        watcher.script.restored_at = watcher.clock.now()
        await asyncio.sleep(200)
        assert (watcher.version_of("a"), watcher.script.verbs().count("list")) == ("2", 2)


async def test_after_silence_the_next_step_is_a_list_before_the_copy_is_stale():
    lists = [page(secret("a", 1), secret("b", 2)), page(secret("b", 9), version=50)]
    async with watching(lists, [[FOREVER]]) as watcher:
        await asyncio.sleep(72)
        assert [watcher.version_of(x) for x in "ab"] == [None, "9"]
        longest = 0.0
        for _ in range(600):
            await asyncio.sleep(1)
            longest = max(longest, watcher.silent_for)
        assert longest < 80
        assert watcher.script.verbs() == ["list", "watch"] * (len(watcher.script.asked) // 2)
        assert watcher.restarts("WatchSilent") == 9


CUT_SOON = [20, Unreachable("cut")]


@pytest.mark.parametrize(
    "passed",
    [[FOREVER], [], CUT_SOON],
    ids=["nothing", "its end, at once", "nothing, until it is cut again"],
)
async def test_a_path_that_opens_watches_and_passes_nothing_of_them_is_no_contact(passed):
    async with watching([page(), Unreachable("no answer")], [passed]) as watcher:
        await asyncio.sleep(91)
        assert watcher.reflector.state.stale(watcher.clock.now())
        assert watcher.reflector.trouble == ("no answer" if passed == [FOREVER] else ANY)
        await asyncio.sleep(3600)
        assert watcher.silent_for > 3600


async def test_a_server_that_ends_each_watch_at_once_is_listed_anew():
    async with watching([page(), page(secret("a", 9))], [[]]) as watcher:
        await asyncio.sleep(60)
        assert watcher.version_of("a") == "9"
        await asyncio.sleep(600)
        assert watcher.silent_for < 40
        assert watcher.restarts("Unreachable") > 10


async def test_an_event_that_is_too_long_to_be_read_is_passed_by_with_a_list():
    endless = LimitExceeded("size", "an event of more than 16 MiB")
    async with watching([page(), page(secret("a", 9), version=50)], [[5, endless], [ENDS]]) as w:
        await asyncio.sleep(8)
        assert w.script.verbs() == ["list", "watch", "list", "watch"]
        assert w.script.versions()[-1] == "50"


async def test_a_cut_watch_comes_back_within_a_second_and_loses_nothing():
    watches = [
        [20, event("ADDED", secret("a", 21)), Unreachable("cut")],
        [0.1, event("ADDED", secret("b", 22)), FOREVER],
    ]
    async with watching([page(version=20)], watches) as watcher:
        await asyncio.sleep(21.5)
        assert watcher.version_of("b") == "22"
        assert watcher.script.versions() == [None, "20", "21"]
        assert watcher.reflector.trouble is None


async def test_a_pause_that_the_server_asks_for_is_kept():
    async with watching([Throttled("429", retry_after=40.0), page()], [[FOREVER]]) as watcher:
        await asyncio.sleep(39)
        assert len(watcher.script.asked) == 1
        await asyncio.sleep(2)
        assert watcher.reflector.state.synced


@pytest.mark.parametrize("refusal", [Forbidden("list secrets: 403"), Unauthorized("401")])
async def test_a_refusal_that_goes_on_is_reported_as_an_error_and_retried_slowly(refusal, lines):
    async with watching([*[refusal] * 4, page()], [[FOREVER]]) as watcher:
        await asyncio.sleep(17)
        assert len(watcher.script.asked) == 3
        await asyncio.sleep(15)
        assert len(watcher.script.asked) == 4
        assert watcher.reflector.trouble == str(refusal)
        await asyncio.sleep(16)
        assert watcher.reflector.state.synced
        assert watcher.reflector.trouble is None
    assert [entry["log_level"] for entry in lines] == ["error"] * 4


STARTING = [Forbidden("403"), Throttled("429", retry_after=1.0), Expired("410")]


async def test_a_server_that_was_away_and_starts_is_followed_through_all_that_it_answers():
    away = [Unreachable("refused")] * 5
    async with watching([page()], [[10], *away, *STARTING, [FOREVER]]) as watcher:
        await asyncio.sleep(60)
        times = watcher.script.asked_at[2 + len(away) :]
        assert times[-1] - times[0] <= len(STARTING)
        assert watcher.reflector.trouble is None


async def test_a_server_that_starts_again_and_again_is_asked_ever_more_slowly():
    restarts = [BadAnswer("cut"), *STARTING] * 20
    async with watching([page()], [*restarts, [FOREVER]]) as watcher:
        await asyncio.sleep(10)
        before = len(watcher.script.asked)
        await asyncio.sleep(60)
        assert len(watcher.script.asked) - before <= 8


async def test_a_position_that_keeps_failing_is_given_up_for_a_new_list():
    poisoned = [[b"garbage"]] * 5
    async with watching([page(), page(secret("a", 9))], [*poisoned, [FOREVER]]) as watcher:
        await asyncio.sleep(60)
        assert watcher.script.verbs() == ["list"] + ["watch"] * 5 + ["list", "watch"]
        assert watcher.version_of("a") == "9"


async def test_a_server_that_is_away_is_not_asked_for_everything_when_it_is_back():
    away = [Unreachable("refused")] * 20
    async with watching([page()], [[10], *away, [bookmark(10), ENDS]]) as watcher:
        await asyncio.sleep(1200)
        assert watcher.script.verbs().count("list") == 1


@pytest.mark.parametrize(("within", "lists"), [(80, 1), (200, 2)], ids=["a moment", "90 s"])
async def test_a_copy_that_may_not_be_stale_is_listed_anew_where_the_server_was_away_for(
    within, lists
):
    away = [Unreachable("refused")] * 20
    async with watching([page()], [[10], *away, [FOREVER]], lists_when_stale=True) as watcher:
        await asyncio.sleep(within)
        assert min(watcher.script.verbs().count("list"), 2) == lists


@pytest.mark.parametrize(("size", "apart"), [(100_000, True), (1, False)], ids=["long", "short"])
async def test_long_objects_that_come_in_one_turn_of_the_loop_are_decoded_in_turns_of_their_own(
    monkeypatch, size, apart
):
    turns, decoded_in, decode = [0], [], seed_objects.secret

    def noting(raw):
        decoded_in.append(len(turns))
        asyncio.get_running_loop().call_soon(turns.append, 0)
        return decode(raw)

    monkeypatch.setattr(seed_objects, "secret", noting)
    events = [1, event("ADDED", secret("a", 11, "YQ==" * size)), FOREVER]
    async with watching([page()], [events]), watching([page()], [events]):
        await asyncio.sleep(2)
    first, second = decoded_in
    assert (first != second) is apart


BROKEN = {
    "metadata": {"name": "kubeconfig", "namespace": "a", "resourceVersion": "12"},
    "data": "canary",
}


async def test_of_an_object_that_cannot_be_decoded_the_last_good_one_stays_and_it_is_said_once(
    lines,
):
    events = [event("MODIFIED", BROKEN)] * 3 + [event("ADDED", secret("b", 13)), FOREVER]
    async with watching([page(secret("a", 1))], [events]) as watcher:
        await asyncio.sleep(5)
        assert watcher.version_of("a") == "1"
        assert watcher.version_of("b") == "13"
    said = [entry for entry in lines if entry["event"].startswith("an object cannot be decoded")]
    assert len(said) == 1
    assert said[0]["namespace"] == "a"
    assert "canary" not in str(lines)


async def test_one_bad_object_does_not_hide_the_others_of_a_list():
    lists = [page(secret("a", 1)), page(BROKEN, secret("b", 2))]
    async with watching(lists, [[EXPIRED_EVENT], [FOREVER]]) as watcher:
        await asyncio.sleep(5)
        assert watcher.version_of("a") == "1"
        assert watcher.version_of("b") == "2"


async def test_what_has_no_name_spoils_the_list_and_nothing_vanishes():
    lists = [page(secret("a", 1)), page({"metadata": {}}, secret("b", 2))]
    async with watching(lists, [[EXPIRED_EVENT], [FOREVER]]) as watcher:
        await asyncio.sleep(20)
        assert watcher.version_of("a") == "1"
        assert watcher.version_of("b") is None
        assert watcher.restarts("BadAnswer") > 1


NOT_SERVED = NotFound("the seed serves no Scaler of example.org/v1")
FORBIDDEN = Forbidden("list scalers: 403 (Forbidden)")


@pytest.mark.parametrize("denial", [NOT_SERVED, FORBIDDEN])
async def test_what_is_denied_three_times_in_a_row_is_unavailable_and_asked_for_again(denial):
    async with watching([denial] * 6 + [page(secret("a", 1))], [[FOREVER]]) as watcher:
        while len(watcher.script.asked) < 3:
            assert watcher.reflector.unavailable is None
            await asyncio.sleep(0.1)
        assert watcher.script.asked_at[2] - watcher.script.asked_at[0] < 5
        assert watcher.reflector.unavailable == str(denial)
        assert not watcher.reflector.state.synced
        await asyncio.sleep(120)
        assert watcher.reflector.unavailable is None
        assert watcher.reflector.state.synced
        assert watcher.changes == ["a"]


@pytest.mark.parametrize("denial", [NOT_SERVED, FORBIDDEN])
@pytest.mark.parametrize(
    "between", [ServerFault("500"), Unreachable("refused"), Throttled("429"), Unauthorized("401")]
)
async def test_a_denial_between_other_failures_is_one_in_passing(denial, between):
    """As of an API server that starts, whose authorizer has not read the roles yet."""
    async with watching([denial, denial, between] * 20, [[FOREVER]]) as watcher:
        await asyncio.sleep(600)
        assert len(watcher.script.asked) > 10
        assert watcher.reflector.unavailable is None


async def test_an_outage_makes_nothing_available_that_was_denied_before():
    async with watching([FORBIDDEN] * 3 + [ServerFault("500")], [[FOREVER]]) as watcher:
        await asyncio.sleep(120)
        assert watcher.reflector.unavailable == str(FORBIDDEN)


@pytest.mark.parametrize("denial", [NOT_SERVED, FORBIDDEN])
async def test_what_was_listed_once_stays_available(denial):
    async with watching([page(secret("a", 1)), denial], [Expired("410")]) as watcher:
        await asyncio.sleep(300)
        assert watcher.reflector.unavailable is None
        assert watcher.reflector.state.synced
        assert watcher.version_of("a") == "1"


async def test_a_kind_that_may_be_unserved_is_listed_and_never_unavailable():
    async with watching([NOT_SERVED], [[FOREVER]], may_be_unserved=True) as watcher:
        await asyncio.sleep(300)
        assert watcher.reflector.unavailable is None
        assert watcher.reflector.state.synced


NO = Forbidden("403")
PAGE, OPEN = page(secret("a", 1)), [[FOREVER]]


@pytest.mark.parametrize(
    ("lists", "watches", "told"),
    [
        pytest.param([NO, NO, PAGE], OPEN, [], id="two in a row are not believed"),
        pytest.param([NO], OPEN, ["403"], id="the third is, and is told once"),
        pytest.param(
            [NO, PAGE], [NO, NO, *OPEN], ["403", None], id="those of lists and watches add up"
        ),
        pytest.param(
            [PAGE], [NO], ["403"], id="a list alone does not prove that it may be watched"
        ),
        pytest.param(
            [NO, NO, PAGE, NO, NO, PAGE],
            [[EXPIRED_EVENT], *OPEN],
            [],
            id="an open watch parts them",
        ),
        pytest.param([Unreachable("away")], OPEN, [], id="a server that is away refused nothing"),
        pytest.param([NO, NO, NO, PAGE], OPEN, ["403", None], id="an open watch takes it back"),
        pytest.param(
            [NO, NO, NO, PAGE, NO, NO, PAGE],
            [[EXPIRED_EVENT], *OPEN],
            ["403", None],
            id="after that it takes three again",
        ),
    ],
)
async def test_repeated_refusals_are_told_until_a_watch_is_open(lists, watches, told):
    async with watching(lists, watches) as watcher:
        await asyncio.sleep(120)
        assert watcher.refusals == told
