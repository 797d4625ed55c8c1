"""What each answer to a deletion leads to (rules 6)."""

import itertools

import pytest

from app.core.errors import Conflict, Forbidden, NotFound
from app.core.model.weeding import Cause, End, WeederPolicy
from app.simulation.store import ObjectKey
from app.simulation.traffic import Trouble
from app.weeder.recovery import CalledOff
from tests.support.weeding import API, DELETE, ETCD, GARDENER_WEEDER, NAMESPACE, SCHEDULER, THREE

REFUSED = 8.0
"""Seconds after which a refusal is none in passing."""


def gaps(harness):
    times = [each.at for each in harness.seed.sent]
    return [round(later - before) for before, later in itertools.pairwise(times)]


async def test_a_pod_that_is_gone_is_done_and_no_error(harness):
    await harness.recover()
    harness.crash(SCHEDULER)
    with harness.world.faults.seed_trouble(Trouble(latency=1.0, verbs=DELETE)):
        await harness.until(lambda: harness.seed.sent)
    harness.world.store.delete(ObjectKey("Pod", NAMESPACE, harness.seed.sent[0].pod))
    await harness.run(20)
    assert harness.results("gone") == 1
    assert len(harness.seed.sent) == 1
    assert not harness.told("PodWeeded")


async def keep_touching(harness, seconds, every=0.1):
    """Somebody writes the pod all the time, so that each deletion comes too late."""
    for _ in range(round(seconds / every)):
        for pod in harness.world.pods(NAMESPACE, SCHEDULER):
            patch = {"metadata": {"annotations": {"touched": str(harness.now)}}}
            harness.world.store.patch(ObjectKey("Pod", NAMESPACE, pod.name), patch)
        await harness.run(every)


async def test_a_conflict_is_judged_again_on_the_next_version_at_most_once_a_second(harness):
    slow = harness.world.faults.seed_trouble(Trouble(latency=0.4, verbs=DELETE))
    await harness.recover(SCHEDULER, settle=0)
    await keep_touching(harness, 10.0)
    assert harness.names() == []
    sent = harness.seed.sent
    assert 5 <= len(sent) <= 11
    assert all(later.at - each.at >= 1 for each, later in itertools.pairwise(sent))
    assert len({each.resource_version for each in sent}) == len(sent)
    assert harness.results("conflict") >= 5
    await harness.run(3)
    assert len(harness.names()) == 1
    slow.lift()


async def test_a_refusal_is_reported_and_ends_this_recovery_and_the_next_one_tries_anew(harness):
    slow = Trouble(latency=3.0, verbs=DELETE)
    with harness.world.faults.pods_forbidden("delete"), harness.world.faults.seed_trouble(slow):
        await harness.recover(*THREE, settle=2 * REFUSED)
        sent = len(harness.seed.sent)
        await harness.run(60)
    assert harness.names() == []
    assert len(harness.seed.sent) == sent == 5, "one at a time at last, and then nothing more"
    ended = harness.recovery()
    assert ended.end is End.FORBIDDEN
    assert "forbidden" in ended.trouble
    assert harness.seed.open_watches == 0
    (told,) = harness.told("WeedingEnded")
    assert told.severity == "error"
    assert harness.told("PodNotWeeded")
    assert harness.results("error") == sent
    await harness.recover(SCHEDULER)
    assert len(harness.names(NAMESPACE)) >= 1


async def test_a_server_that_refuses_for_a_moment_as_it_starts_ends_nothing(harness):
    with harness.world.faults.pods_forbidden("delete"):
        await harness.recover(*THREE)
    await harness.run(10)
    assert len(harness.names()) == 3
    assert harness.recovery().end is None


async def test_refusals_with_deletions_in_between_do_not_add_up(harness):
    await harness.recover()
    for name in THREE:
        with harness.world.faults.pods_forbidden("delete"):
            harness.crash(name)
            await harness.run(1)
        await harness.run(10)
    assert harness.results("error") == 3
    assert len(harness.names()) == 3
    assert harness.recovery().end is None


async def test_where_pods_may_not_be_listed_the_recovery_says_so_and_ends(harness):
    with harness.world.faults.pods_forbidden("list"):
        await harness.recover(SCHEDULER, settle=10)
    assert harness.recovery().end is End.FORBIDDEN
    assert "cannot list pods" in harness.recovery().trouble


@pytest.mark.parametrize(
    "trouble",
    [
        {"throttled": True},
        {"throttled": True, "retry_after": 0.0},
        {"error_rate": 1.0},
        {"refused": True},
    ],
    ids=["429", "429 at once", "5xx", "refused"],
)
async def test_without_a_retry_after_it_is_asked_again_after_1_s_and_twice_as_long(
    harness, trouble
):
    with harness.world.faults.seed_trouble(Trouble(verbs=DELETE, **trouble)):
        await harness.recover(SCHEDULER, settle=10)
    assert gaps(harness) == [1, 2, 4]
    await harness.run(8)
    assert len(harness.names()) == 1


async def test_it_is_asked_again_only_while_the_facts_hold(harness):
    throttled = harness.world.faults.seed_trouble(Trouble(throttled=True, verbs=DELETE))
    await harness.recover(SCHEDULER, restarts=2, settle=60)
    assert harness.names() == []
    throttled.lift()
    await harness.run(30)
    assert harness.names() == [], "its wait was over long ago"
    assert len(harness.seed.sent) <= 4


async def test_a_request_without_an_answer_is_asked_again_and_counts_to_the_cap(lab):
    """It may have deleted the pod."""
    harness = lab.control_plane(max_deletions_per_workload=1)
    with harness.world.faults.seed_trouble(Trouble(silent=True, verbs=DELETE)):
        await harness.recover(SCHEDULER, settle=10)
        assert len(harness.seed.sent) == 2
        (pod,) = harness.world.pods(NAMESPACE, SCHEDULER)
        harness.world.delete_pod(NAMESPACE, pod.name)
        await harness.run(5)
        harness.crash(SCHEDULER)
    await harness.run(30)
    assert harness.names() == [], "the one that there may be has been used"
    assert "CapReached" in [each.reason for each in harness.recovery().spared]


async def test_a_deletion_that_was_carried_out_but_not_answered_is_not_repeated(harness):
    """The second request finds the pod changed, or gone."""
    with harness.world.faults.seed_trouble(Trouble(latency=8.0, verbs=DELETE)):
        await harness.recover(SCHEDULER, settle=4.5)
        assert len(harness.names()) == 1
    await harness.run(60)
    assert len(harness.names()) == 1
    assert len({each.uid for each in harness.seed.sent}) == 1


async def test_while_a_deletion_is_on_its_way_again_no_other_recovery_asks_for_the_same(lab):
    harness = await sent_for_two_services(lab, Trouble(silent=True, verbs=DELETE), 60)
    times = sorted(each.at for each in harness.seed.sent)
    assert len(times) >= 3
    assert all(later - each >= 5 for each, later in itertools.pairwise(times))


@pytest.mark.parametrize("between", [Conflict, NotFound], ids=["409", "404"])
async def test_an_answer_that_is_no_refusal_begins_their_count_anew(harness, monkeypatch, between):
    """Who may not delete pods is told so for those that are gone or changed, too."""
    answers = [Forbidden, Forbidden, between, Forbidden, Forbidden]
    original = harness.seed.delete_pod

    async def answer(namespace, name, *, starting, **more):
        if not answers:
            await original(namespace, name, starting=starting, **more)
            return
        starting()
        error = answers.pop(0)
        raise error(f"pods {name}")

    monkeypatch.setattr(harness.seed, "delete_pod", answer)
    await harness.recover(*THREE, settle=15)
    assert answers == []
    assert harness.recovery().end is None
    assert len(harness.names()) == 2


async def test_a_deletion_that_waits_to_be_sent_when_the_right_is_found_missing_is_not(harness):
    waits = harness.hold_deletions()
    await harness.recover(SCHEDULER)
    recovery = harness.weeder.registry.running(API)
    waits[0]()
    recovery._may_not_delete = Forbidden("pods is forbidden")
    assert recovery.running, "it ends as soon as it is its turn"
    with pytest.raises(CalledOff):
        waits[0]()


async def sent_for_two_services(lab, trouble, seconds):
    """When deletions were sent of one pod that two services wait for."""
    same = GARDENER_WEEDER.services[API.service]
    harness = lab.control_plane(WeederPolicy({ETCD.service: same, API.service: same}))
    with harness.world.faults.seed_trouble(trouble):
        faults = [await harness.lose(ETCD), await harness.lose(API)]
        harness.crash(SCHEDULER)
        for fault in faults:
            fault.lift()
        await harness.run(seconds)
        assert harness.watching(ETCD)
        assert harness.watching(API)
    return harness


async def test_a_recovery_that_replaces_another_waits_as_long_as_that_would_have(harness):
    throttled = Trouble(throttled=True, retry_after=60.0, verbs=DELETE)
    with harness.world.faults.seed_trouble(throttled):
        await harness.recover(SCHEDULER)
        _ = harness.weeder.registry.begin(API, Cause.ASKED, 300.0)
        await harness.run(70)
    assert gaps(harness) == [60]
