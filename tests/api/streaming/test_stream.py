"""One stream: where it begins, what keeps it open, and everything that ends it."""

import asyncio
from dataclasses import replace

import pytest

from app.api.auth.authorization import Call
from app.api.context import ProberView
from app.api.problems import Problem, ProblemType
from app.api.stream import MOST
from app.core.model.overrides import API_PAUSE
from app.core.model.policy import Loop
from app.core.model.probing import NoticeKind
from app.core.model.scaling_runs import OperationPhase
from app.core.model.weeding import End, Phase
from tests.api.facts import HOME, NAMESPACE, NOW, healthy, pause, protected
from tests.api.streaming.listening import Harness
from tests.api.streaming.test_changes import OTHER, operation, recovery, service


async def change(harness, shoots, message, namespace=NAMESPACE):
    """The shoot says something else."""
    shoots.add(replace(healthy(namespace), message=message))
    harness.look(namespace)
    await harness.run(0.3)


def messages(client):
    return [each["message"] for each in client.data("shoot")]


# How it begins.


async def test_it_is_what_no_proxy_keeps_back_and_says_when_to_connect_again(harness):
    client = await harness.listen()
    assert client.status == 200
    assert client.headers["content-type"].startswith("text/event-stream")
    assert client.headers["cache-control"] == "no-cache"
    assert client.headers["x-accel-buffering"] == "no"
    assert "content-length" not in client.headers
    retry = int(client.text.partition("retry: ")[2].partition("\n")[0])
    assert 1_000 <= retry <= 5_000


async def test_clients_are_not_all_told_to_connect_again_at_the_same_time(harness):
    clients = [await harness.listen() for _ in range(5)]
    assert len({each.text.partition("retry: ")[2].partition("\n")[0] for each in clients}) == 5


async def test_it_begins_only_when_it_would_miss_nothing_any_more(harness, shoots):
    """A client that asks for the list once it has the head of the answer has missed no change."""
    shoots.add(*(healthy(f"shoot--{n}") for n in range(200)))
    client = harness.begin()
    while client.status is None:
        await harness.run(0.001)
    shoots.add(protected("shoot--199"))
    harness.look("shoot--199")
    await harness.run(0.3)
    assert client.names == ["shoot"]


# Resuming.


async def test_a_client_that_comes_back_is_told_what_it_missed_once(harness, shoots):
    client = await harness.listen()
    await change(harness, shoots, "1")
    await client.leave()
    await change(harness, shoots, "2")
    await change(harness, shoots, "3")
    back = await harness.listen(last_id=client.last_id)
    assert messages(back) == ["2", "3"]
    assert back.names == ["shoot", "shoot"], "no gap"
    await change(harness, shoots, "4")
    assert messages(back) == ["2", "3", "4"]


async def test_a_filter_that_hides_everything_does_not_make_a_client_lose_its_place(
    harness, shoots
):
    shoots.add(healthy(OTHER))
    client = await harness.listen(f"namespace={OTHER}")
    first = client.last_id
    await change(harness, shoots, "hidden")
    await harness.run(16)
    assert client.events == []
    assert client.last_id != first


@pytest.mark.parametrize("last_id", ["deadbeef-3", "", "rubbish", "\xff\xfe", "9" * 5_000])
async def test_an_unknown_id_gets_a_gap_and_everything_as_it_is_now_then_what_changes(
    harness, shoots, scaling_runs, weeders, overrides, last_id
):
    shoots.add(protected(OTHER))
    scaling_runs.add(operation(), operation(OperationPhase.DONE, name="op-2"))
    weeders.add(service(recovery(), recovery(phase=Phase.ENDED, ended=NOW, end=End.LOST)))
    overrides.add(pause())
    overrides.add(pause(of=HOME))
    client = await harness.listen(last_id=last_id)
    assert client.names[0] == "gap"
    assert client.names[-1] == "snapshot-end"
    assert sorted(client.names[1:-1]) == [
        "operation", "override", "override", "shoot", "shoot", "weeder",
    ]  # fmt: skip
    assert client.events[-1].data == {"items": 6}
    assert {each["namespace"] for each in client.data("shoot")} == {NAMESPACE, OTHER}
    assert [each["id"] for each in client.data("operation")] == ["op-1"], "what runs"
    assert {each["namespace"] for each in client.data("override")} == {NAMESPACE, None}
    await change(harness, shoots, "next")
    assert client.names[-1] == "shoot"
    assert client.data("shoot")[-1]["message"] == "next"


async def test_a_snapshot_that_broke_off_is_not_taken_for_a_whole_one(harness):
    *inside, end = (await harness.listen(last_id="deadbeef-3")).arrived
    assert [each.id for each in inside] == [None] * len(inside), "whoever loses it begins anew"
    assert end.name == "snapshot-end"
    assert end.id is not None


async def test_a_snapshot_has_what_the_filter_asks_for(harness, shoots, scaling_runs, overrides):
    shoots.add(healthy(OTHER))
    scaling_runs.add(operation())
    overrides.add(pause(of=HOME))
    client = await harness.listen(f"namespace={OTHER}", last_id="x")
    assert client.names == ["gap", "shoot", "override", "snapshot-end"]
    client = await harness.listen("kind=operation", last_id="x")
    assert client.names == ["gap", "operation", "snapshot-end"]


async def test_a_snapshot_renders_no_shoot_anew(harness, shoots, monkeypatch):
    """A thousand of them would keep the event loop from all probes for 0.2 s, for each client."""
    shoots.add(healthy(OTHER))
    await harness.listen()
    monkeypatch.setattr(ProberView, "shoot_json", None)  # whoever calls it fails
    client = await harness.listen(last_id="x")
    assert client.names == ["gap", "shoot", "shoot", "snapshot-end"]


async def test_a_snapshot_has_nothing_that_is_over(
    harness, shoots, scaling_runs, weeders, overrides
):
    scaling_runs.add(operation())
    weeders.add(service(recovery()))
    overrides.add(pause())
    await harness.listen()
    scaling_runs.add(operation(OperationPhase.DONE))
    weeders.add(service(recovery(phase=Phase.ENDED, ended=NOW, end=End.LOST)))
    await overrides.end_pause(NAMESPACE, API_PAUSE, by="bob")
    del shoots.known[NAMESPACE]
    harness.note(NoticeKind.LIFECYCLE, NAMESPACE)
    await harness.run(2)
    assert (await harness.listen(last_id="x")).names == ["gap", "snapshot-end"]


# What keeps it open.


async def test_a_heartbeat_comes_after_15_seconds_of_silence_and_is_no_event(harness):
    client = await harness.listen()
    await harness.run(15.1)
    assert client.text.count(": heartbeat\n") == 1
    await harness.run(30)
    assert client.text.count(": heartbeat\n") == 3
    assert client.events == []


async def test_a_heartbeat_comes_however_much_is_published_that_the_client_did_not_ask_for(
    harness, shoots
):
    client = await harness.listen(f"namespace={OTHER}")
    for second in range(31):
        await change(harness, shoots, f"change {second}")
        await harness.run(0.7)
    assert client.text.count(": heartbeat\n") == 2
    assert client.events == []


# What ends it.


async def test_attempts_are_for_those_who_may_read_the_audit(harness, authority):
    authority.forbidden = {Call.READ_AUDIT}
    assert (await harness.listen("kind=audit&kind=shoot")).status == 403
    assert (await harness.listen("kind=shoot")).status == 200
    authority.forbidden = set()
    client = await harness.listen("kind=audit")
    assert client.status == 200
    authority.forbidden = {Call.READ_AUDIT}
    await harness.run(61)
    assert client.names == ["end"], "and it is reviewed, too"


@pytest.mark.parametrize("kind", [ProblemType.FORBIDDEN, ProblemType.FEATURE_OFF])
async def test_a_denial_ends_the_stream_within_a_minute(harness, shoots, authority, kind):
    client = await harness.listen()
    authority.refuses = Problem(kind, "eve may not list shoots")
    await harness.run(61)
    assert client.complete
    assert client.task.done()
    assert [(each.name, each.data) for each in client.events] == [
        ("end", {"reason": "eve may not list shoots"})
    ]
    await change(harness, shoots, "secret")
    assert "secret" not in client.text
    assert len(harness.streams) == 0


async def test_a_token_that_is_worth_nothing_any_more_ends_the_stream_within_a_minute(harness):
    client = await harness.listen()

    async def refused():
        raise Problem(ProblemType.UNAUTHENTICATED, "the token has expired")

    client.scope["state"]["still"] = refused
    await harness.run(61)
    assert client.complete
    assert client.events[0].data == {"reason": "the token has expired"}


async def test_a_review_that_takes_long_holds_up_no_event(harness, shoots, authority, monkeypatch):
    client = await harness.listen()

    async def slow(*_, again):
        await harness.clock.sleep(1_000)

    monkeypatch.setattr(authority, "check", slow)
    await harness.run(62)
    await change(harness, shoots, "in time")
    assert messages(client) == ["in time"]


async def test_a_client_that_leaves_before_the_stream_began_is_forgotten(shoots):
    harness = Harness.create(shoots=shoots, start=False)
    client = harness.begin()
    await harness.run(1)
    assert client.status is None
    await client.leave()
    assert len(harness.streams) == 0
    await harness.close()


async def test_a_client_that_does_not_read_is_dropped_and_nobody_waits_for_it(harness, shoots):
    slow, quick = await harness.listen(), await harness.listen()
    slow.reading.clear()
    for number in range(40):
        await change(harness, shoots, f"{number}")
        await harness.run(1)
    assert messages(quick) == [f"{number}" for number in range(40)]
    assert all(b.at - a.at < 2 for a, b in zip(quick.events, quick.events[1:], strict=False))
    assert slow.task.done()
    assert not slow.complete, "it would have to read the end as well"
    assert len(harness.streams) == 1


async def test_a_client_that_reads_too_slowly_is_dropped_when_what_it_needs_is_forgotten(
    harness, shoots
):
    slow = await harness.listen()
    slow.reading.clear()
    await change(harness, shoots, "first")
    for _ in range(5_000):
        harness.streams.feed.publish("shoot", NAMESPACE, b"event: shoot\ndata: {}\n\n")
    slow.reading.set()
    await harness.run(0.1)
    assert slow.task.done()
    assert slow.names == ["shoot", "end"]
    assert slow.events[1].data["reason"].startswith("too slow: change ")


async def test_a_loss_of_leadership_ends_every_stream_and_the_next_is_503(harness, process):
    clients = [await harness.listen() for _ in range(3)]
    process.leading = False
    harness.streams.publisher.leadership_changed()
    await harness.run(0.3)
    for each in clients:
        assert each.complete
        assert each.names == ["end"]
        assert "leads" in each.events[0].data["reason"]
    back = await harness.listen(last_id=clients[0].last_id)
    assert (back.status, back.problem["leader"]["identity"]) == (503, "dwd-7f9")


async def test_a_process_that_stops_ends_every_stream_at_once_and_begins_no_other(harness):
    clients = [await harness.listen() for _ in range(5)]
    harness.streams.stop()
    await harness.run(0.01)
    assert all(each.complete and each.names == ["end"] for each in clients)
    assert (await harness.listen()).status == 503


async def test_a_stream_that_has_not_begun_ends_as_well(shoots):
    harness = Harness.create(shoots=shoots, start=False)
    client = harness.begin()
    await harness.run(1)
    harness.streams.stop()
    await harness.run(0.01)
    assert (client.status, client.names, client.complete) == (200, ["end"], True)
    await harness.close()


async def test_an_unexpected_failure_of_drawing_ends_the_streams_and_is_counted_and_mended(
    harness, shoots, monkeypatch
):
    client = await harness.listen()
    with monkeypatch.context() as broken:
        broken.setattr(shoots, "status", lambda _: 1 / 0)
        await change(harness, shoots, "x")
    assert client.complete
    assert client.names == ["end"]
    assert "ZeroDivisionError" in client.events[0].data["reason"]
    assert (
        harness.metrics.registry.get_sample_value("dwd_runner_failures_total", {"loop": "events"})
        == 1
    )
    await harness.run(2)
    back = await harness.listen(last_id=client.last_id)
    assert back.names == ["gap", "shoot", "snapshot-end"]


# How many there may be.


async def test_a_caller_has_ten_streams_at_most_and_others_are_not_in_his_way(harness):
    first = [await harness.listen() for _ in range(10)]
    refused = await harness.listen()
    assert refused.status == 429
    assert refused.headers["retry-after"] == "10"
    assert "tester has 10 streams" in refused.problem["detail"]
    assert len(harness.streams) == 10
    assert (await harness.listen(caller="other")).status == 200
    await first[0].leave()
    assert (await harness.listen()).status == 200


async def test_there_are_two_hundred_in_all(harness):
    for number in range(MOST):
        harness.begin(caller=f"caller-{number // 10}")
    await harness.run(1)
    assert len(harness.streams) == MOST
    assert (await harness.listen(caller="one-more")).status == 429
    assert len(harness.streams) == MOST


# Bad input, standby.


async def test_a_filter_that_is_none_is_422(harness):
    client = await harness.listen("kind=shoot-gone&namespace=&names=a")
    assert client.status == 422
    paths = [each["path"] for each in client.problem["errors"]]
    assert paths == ["query.names", "query.namespace", "query.kind.0"]
    assert len(harness.streams) == 0


@pytest.mark.parametrize("loops", [(Loop.PROBER,), (Loop.WEEDER,), (Loop.PROBER, Loop.WEEDER)])
async def test_a_standby_is_503_with_the_leader(harness, process, loops):
    process.loops, process.leading = loops, False
    client = await harness.listen()
    assert client.status == 503
    assert client.problem["leader"]["identity"] == "dwd-7f9"


# What the metrics say of it.


async def test_a_stream_is_no_request_that_took_an_hour(harness):
    client = await harness.listen()
    await asyncio.sleep(3_600)
    await client.leave()
    value = harness.metrics.registry.get_sample_value
    labels = {"handler": "/api/v1/events", "method": "GET"}
    assert value("http_requests_total", labels | {"status": "200"}) == 1
    assert value("http_request_duration_seconds_sum", labels) < 60
