"""The seed's word on callers: when it is asked, what is remembered, and what is answered while it says nothing."""

import asyncio
import gc
import itertools
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest

from app.api.auth.reviews import REST, Reputation, ReviewService, Trust
from app.api.problems import Problem
from app.core import errors
from app.core.clock import Clock
from app.core.model.callers import AUDIENCE, Access, Caller
from app.core.ports import REVIEW_FEATURE
from tests.api.auth.conftest import ALICE, BOB, FakeReviewer

READ = Access("get", "shoots", "shoot--a--b")
WRITE = Access("update", "shoots/ignore-scaling", "shoot--a--b")
TOKEN, ACCESS = "TokenReview", "SubjectAccessReview"


@pytest.fixture
def reviewer():
    """Lets alice read, and write, in one namespace."""
    return FakeReviewer({("alice", READ), ("alice", WRITE)})


async def alice(reviews, *, trust=Trust.FRESH):
    return await reviews.caller("alices-token", audience=AUDIENCE, trust=trust)


async def may(reviews, *, trust=Trust.FRESH, caller=ALICE, access=READ):
    return await reviews.allowed(caller, access, trust=trust)


async def problem(awaitable) -> Problem:
    with pytest.raises(Problem) as caught:
        await awaitable
    return caught.value


# What is asked.


async def test_a_token_is_its_owners_for_the_audience_that_it_was_made_for(reviews):
    assert await alice(reviews) == ALICE
    assert await reviews.caller("alices-token", audience=None, trust=Trust.FRESH) is None
    assert await reviews.caller("alices-seed-token", audience=None, trust=Trust.FRESH) == ALICE
    assert await reviews.caller("alices-seed-token", audience=AUDIENCE, trust=Trust.FRESH) is None


@pytest.mark.parametrize(
    "other",
    [
        replace(ALICE, uid="u3"),
        replace(ALICE, groups=("devs",)),
        replace(ALICE, extra={"scopes": ("a",)}),
        replace(ALICE, extra={}),
    ],
    ids=["uid", "groups", "scopes", "no-extra"],
)
async def test_somebody_of_the_same_name_is_somebody_else(reviews, reviewer, other):
    await may(reviews)
    await may(reviews, caller=other)
    assert reviewer.asked == [ACCESS, ACCESS]


# What is remembered.


async def test_a_read_asks_once_a_minute(reviews, reviewer):
    for _ in range(7):
        await alice(reviews)
        await may(reviews)
        await asyncio.sleep(9.9)
    assert reviewer.asked == [TOKEN, ACCESS]
    await alice(reviews)
    await may(reviews)
    assert reviewer.asked == [TOKEN, ACCESS, TOKEN, ACCESS]


async def test_a_denial_is_asked_again_after_ten_seconds(reviews, reviewer):
    reviewer.rights.clear()
    for _ in range(3):
        assert await reviews.caller("wrong", audience=AUDIENCE, trust=Trust.FRESH) is None
        assert not await may(reviews)
    assert reviewer.asked == [TOKEN, ACCESS]
    await asyncio.sleep(10.1)
    reviewer.tokens["wrong", AUDIENCE] = BOB
    reviewer.rights.add(("alice", READ))
    assert await reviews.caller("wrong", audience=AUDIENCE, trust=Trust.FRESH) == BOB
    assert await may(reviews)


async def test_a_denied_write_that_is_repeated_is_asked_about_once_a_second(reviews, reviewer):
    reviewer.rights.clear()
    for _ in range(30):
        assert await reviews.caller("wrong", audience=AUDIENCE, trust=Trust.NOTHING) is None
        assert not await may(reviews, trust=Trust.NOTHING)
        await asyncio.sleep(0.1)
    assert reviewer.asked == [TOKEN, ACCESS] * 3
    reviewer.rights.add(("alice", READ))
    await asyncio.sleep(1.0)
    assert await may(reviews, trust=Trust.NOTHING)


async def test_a_write_never_takes_a_reads_yes(reviews, reviewer):
    assert await may(reviews)
    assert await alice(reviews) == ALICE
    reviewer.rights.clear()
    reviewer.tokens.clear()
    assert not await may(reviews, trust=Trust.NOTHING)
    assert await alice(reviews, trust=Trust.NOTHING) is None


async def test_what_a_write_learned_counts_for_reads(reviews, reviewer):
    assert await may(reviews)
    reviewer.rights.clear()
    assert not await may(reviews, trust=Trust.NOTHING)
    assert not await may(reviews)
    assert reviewer.asked == [ACCESS, ACCESS]


async def test_many_reads_at_once_are_one_review_and_writes_are_not(reviews, reviewer):
    reviewer.takes = 1.0
    reviewer.rights.clear()
    assert set(await asyncio.gather(*(may(reviews) for _ in range(50)))) == {False}
    assert reviewer.asked == [ACCESS]
    reviewer.rights.add(("alice", READ))
    await asyncio.sleep(1.0)
    await asyncio.gather(*(may(reviews, trust=Trust.NOTHING) for _ in range(3)))
    assert reviewer.asked == [ACCESS] * 4


async def test_no_token_is_kept_anywhere(reviewer, metrics):
    token = "".join(["canary", "-", "t0ken"])  # made here, so that no constant of this module is it
    reviewer.tokens[token, AUDIENCE] = ALICE
    reviews = ReviewService(reviewer, Clock.of_loop(), metrics)
    await reviews.caller(token, audience=AUDIENCE, trust=Trust.FRESH)
    del reviewer.tokens[token, AUDIENCE]
    kept = [each for each in gc.get_objects() if isinstance(each, tuple) and token in each]
    assert kept == []
    assert token not in repr(vars(reviews))
    assert token not in repr(reviews._callers._yes)


async def test_the_hash_of_a_token_is_another_one_in_each_process(reviewer, metrics):
    kept = []
    for _ in range(2):
        reviews = ReviewService(reviewer, Clock.of_loop(), metrics)
        await alice(reviews)
        kept += list(reviews._callers._yes)
    assert kept[0] != kept[1]


# The seed is away.

AWAY = [
    errors.Unreachable("no answer within 3 s"),
    errors.Unauthorized("who are we", status=401),
    errors.LimitExceeded("size", "too long"),
]


@pytest.mark.parametrize("error", AWAY, ids=lambda each: type(each).__name__)
async def test_while_the_seed_is_away_reads_go_on_for_five_minutes_and_writes_fail(
    reviews, reviewer, error
):
    assert await alice(reviews)
    assert await may(reviews)
    reviewer.fails = error
    await asyncio.sleep(299)
    assert await alice(reviews) == ALICE
    assert await may(reviews)
    for refused in (alice(reviews, trust=Trust.NOTHING), may(reviews, trust=Trust.NOTHING)):
        found = await problem(refused)
        assert (found.kind.status, found.headers) == (503, {"Retry-After": "5"})
        assert str(error) in found.detail
    await asyncio.sleep(1.1)
    assert (await problem(alice(reviews))).kind.status == 503
    assert (await problem(may(reviews))).kind.status == 503


async def test_those_who_are_known_do_not_wait_for_a_seed_that_was_just_away(reviews, reviewer):
    assert await may(reviews)
    reviewer.away()
    reviewer.takes = 3.0
    await asyncio.sleep(61)
    started = asyncio.get_running_loop().time()
    for _ in range(10):
        assert await may(reviews)
    assert asyncio.get_running_loop().time() - started == pytest.approx(3.0, abs=0.1)
    assert reviewer.asked == [ACCESS] * 2
    await asyncio.sleep(REST)
    assert await may(reviews)
    assert reviewer.asked == [ACCESS] * 3


async def test_an_absence_is_logged_once_and_not_for_each_call(reviews, reviewer, lines):
    reviewer.away()
    for _ in range(50):
        await problem(alice(reviews, trust=Trust.NOTHING))
    assert [each["event"] for each in lines] == ["callers cannot be reviewed at the moment"]


# It says that we may not ask.


@pytest.mark.parametrize("kind", [TOKEN, ACCESS])
async def test_where_we_may_not_ask_every_call_is_refused_and_it_is_said_why(
    reviews, reviewer, metrics, kind
):
    assert await alice(reviews)
    assert await may(reviews)
    error = errors.Forbidden("may not create it", status=403)
    if kind == TOKEN:
        reviewer.fails = error
        await problem(alice(reviews, trust=Trust.NOTHING))
    else:
        reviewer.fails_access = error
        await problem(may(reviews, trust=Trust.NOTHING))
    for refused in (alice(reviews), alice(reviews, trust=Trust.NOTHING), may(reviews)):
        found = await problem(refused)
        assert (found.kind.status, found.extra) == (503, {"feature": "token-review"})
        assert (
            found.detail == f"the seed forbids this process to create a {kind}: may not create it"
        )
    assert reviews.off == f"the seed forbids this process to create a {kind}: may not create it"
    assert off(metrics) == 1


def off(metrics):
    return metrics.registry.get_sample_value("dwd_feature_off", {"feature": REVIEW_FEATURE})


async def test_what_is_forbidden_is_not_asked_again_for_ten_seconds(reviews, reviewer):
    reviewer.forbid()
    for _ in range(20):
        await problem(alice(reviews, trust=Trust.NOTHING))
    assert reviewer.asked == [TOKEN]
    await asyncio.sleep(10.1)
    await problem(alice(reviews))
    assert reviewer.asked == [TOKEN, TOKEN]


@pytest.mark.parametrize("read", [alice, may])
async def test_what_was_remembered_before_we_were_forbidden_to_ask_is_worth_nothing(
    reviews, reviewer, read
):
    assert await read(reviews)
    reviewer.forbid()
    await problem(alice(reviews, trust=Trust.NOTHING))
    await asyncio.sleep(10.1)
    assert (await problem(read(reviews))).kind.status == 503


async def test_while_one_of_both_kinds_is_forbidden_the_feature_is_off(reviews, reviewer, metrics):
    reviewer.forbid()
    for refused in (alice(reviews), may(reviews)):
        await problem(refused)
        await asyncio.sleep(10.1)
    assert str(reviews.off).count("the seed forbids this process to create a") == 2
    reviewer.fails, reviewer.fails_access = None, reviewer.fails
    assert await alice(reviews)
    assert str(reviews.off).count("the seed forbids this process to create a") == 1
    assert off(metrics) == 1


async def test_a_right_that_is_granted_later_is_noticed(reviews, reviewer, metrics, lines):
    reviewer.forbid()
    await problem(alice(reviews))
    await asyncio.sleep(10.1)
    await problem(alice(reviews))
    reviewer.mend()
    await asyncio.sleep(10.1)
    assert await alice(reviews) == ALICE
    assert [(each["log_level"], each["feature"]) for each in lines] == [
        ("error", REVIEW_FEATURE),
        ("info", REVIEW_FEATURE),
    ]
    assert (reviews.off, off(metrics)) == (None, 0)


# Too much is asked.


@pytest.mark.parametrize(("retry_after", "header"), [(None, "1"), (7.2, "8"), (1e9, "3600")])
async def test_too_many_questions_are_answered_with_429(reviews, reviewer, retry_after, header):
    reviewer.throttle(retry_after)
    for refused in (
        alice(reviews),
        alice(reviews, trust=Trust.NOTHING),
        may(reviews, trust=Trust.NOTHING),
    ):
        found = await problem(refused)
        assert (found.kind.status, found.headers) == (429, {"Retry-After": header})


async def test_a_flood_of_others_does_not_keep_out_those_who_read_and_are_known(reviews, reviewer):
    assert await alice(reviews)
    reviewer.throttle()
    await asyncio.sleep(200)
    assert await alice(reviews) == ALICE


# Many ask at once.


@pytest.fixture
async def floods(reviews):
    """Begins a flood: so many peers, or callers, with twenty writes a second each; it ends with the test."""
    flooding: list[asyncio.Future[None]] = []

    async def flood(write):
        loop, asking = asyncio.get_running_loop(), set()
        while True:
            task = loop.create_task(in_vain(write()))
            asking.add(task)
            task.add_done_callback(asking.discard)
            await asyncio.sleep(0.05)

    def begin(*writes):
        """Instead of the one before."""
        for each in flooding:
            each.cancel()
        flooding[:] = [asyncio.ensure_future(flood(each)) for each in writes]

    yield begin
    begin()


async def in_vain(write):
    with suppress(Problem):
        await write


def strangers(reviews, number):
    """Peers, each of which sends another token each time."""
    tokens = itertools.count()
    return [
        partial(_stranger, reviews, tokens, f"10.0.0.{peer}", Trust.NOTHING)
        for peer in range(number)
    ]


def _stranger(reviews, tokens, peer, trust):
    token = f"random-{next(tokens)}"
    return reviews.caller(token, audience=AUDIENCE, trust=trust, peer=peer)


def nobodies(reviews, number):
    """Callers whom the seed knows, and lets do nothing: each asks for something else each time."""
    names = itertools.count()
    return [
        partial(_nobody, reviews, Caller(f"mallory-{caller}"), names) for caller in range(number)
    ]


def _nobody(reviews, caller, names):
    access = Access("update", "shoots/ignore-scaling", f"shoot--x--{next(names)}")
    return reviews.allowed(caller, access, trust=Trust.NOTHING)


async def write(reviews, peer="10.0.1.1", token="alices-token"):  # noqa: S107 - nobody's
    """Seconds that both reviews of a write took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    caller = await reviews.caller(token, audience=AUDIENCE, trust=Trust.NOTHING, peer=peer)
    assert caller == ALICE
    assert await reviews.allowed(caller, WRITE, trust=Trust.NOTHING)
    return loop.time() - began


@pytest.mark.parametrize("others", [strangers, nobodies])
async def test_whoever_was_allowed_something_lately_does_not_wait_for_a_flood_of_others(
    reviews, reviewer, floods, others
):
    reviewer.takes = 0.01
    await write(reviews)
    await asyncio.sleep(300)
    floods(*others(reviews, 4))
    await asyncio.sleep(3)
    took = [await write(reviews, peer="10.0.0.1") for _ in range(12)]
    assert max(took) < 0.25
    assert sum(took) < 1


async def test_a_token_that_was_never_seen_waits_for_its_address_alone(reviews, reviewer, floods):
    reviewer.takes = 0.01
    floods(*strangers(reviews, 4))
    await asyncio.sleep(5)
    for number in range(12):
        token = f"alices-token-{number}"
        reviewer.tokens[token, AUDIENCE] = ALICE
        assert await write(reviews, token=token) < 2


async def test_callers_behind_one_address_who_were_only_denied_share_its_turns(
    reviews, reviewer, floods
):
    reviewer.takes = 0.01
    names = itertools.count()
    denied = [(f"mallory-{number}", "10.0.0.1") for number in range(20)] + [("eve", "10.0.1.1")]
    asking = []
    for name, peer in denied:
        reviewer.tokens[name, AUDIENCE] = Caller(name)
        caller = await reviews.caller(name, audience=AUDIENCE, trust=Trust.NOTHING, peer=peer)
        asking.append(partial(_nobody, reviews, caller, names))
        assert not await asking[-1]()
        await asyncio.sleep(1)
    *crowd, eve = asking
    floods(*crowd)
    await asyncio.sleep(5)
    began = asyncio.get_running_loop().time()
    assert not await eve()
    assert asyncio.get_running_loop().time() - began < 1.5


async def test_trust_is_lost_ten_minutes_after_the_last_yes(reviews, floods):
    await write(reviews)
    await asyncio.sleep(595)
    floods(*strangers(reviews, 20))
    await asyncio.sleep(4)
    assert await write(reviews, peer="10.0.0.1") < 0.5
    floods()
    await asyncio.sleep(598)
    floods(*strangers(reviews, 20))
    await asyncio.sleep(4)
    found = await problem(write(reviews, peer="10.0.0.1"))
    assert (found.kind.status, found.headers) == (429, {"Retry-After": "1"})


async def test_a_token_that_is_good_no_more_is_a_strangers(reviews, reviewer, floods):
    await write(reviews)
    del reviewer.tokens["alices-token", AUDIENCE]
    assert await alice(reviews, trust=Trust.NOTHING) is None
    floods(*strangers(reviews, 20))
    await asyncio.sleep(5)
    assert (await problem(alice(reviews, trust=Trust.NOTHING))).kind.status == 429


async def test_a_denial_takes_no_trust_away(reviews):
    await alice(reviews)
    assert await may(reviews)
    assert not await may(reviews, access=replace(READ, verb="update"))
    assert reviews._repute(ALICE)[0] is Reputation.TRUSTED
    assert not await may(reviews, caller=BOB)
    assert reviews._repute(BOB)[0] is Reputation.DENIED
