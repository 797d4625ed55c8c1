"""One attempt on one path: what ends it, and what is the fault of something else."""

import asyncio
import time
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from app.core import errors
from app.core.model.probing import Failure, PathReading, RequestKind, VerdictReason
from app.core.model.shoots import Route, SecretView
from app.prober.shoot_probe import PathProbe
from tests.prober.rules.facts import pending, workload
from tests.support.doubles import OwnSessions
from tests.support.harness import SHOOT

STAKES = pending(workload(1))


@dataclass
class Outside(OwnSessions):
    """A seed, a connector and a clock, as far as an attempt asks them; `answers` has one for each attempt."""

    answers: list[errors.ClusterError | None] = field(default_factory=list)
    jump: float = 0.0
    """Seconds by which the process stands still in each attempt that fails."""
    read_live: float = 0.0
    off: float = 0.0
    asked: list[tuple[Route, bool, float]] = field(default_factory=list)

    def now(self):
        return asyncio.get_running_loop().time() + self.off

    def secret(self, namespace, route=Route.INTERNAL):
        return SecretView(namespace, "1", b"kubeconfig", route)

    @property
    def clock(self):
        return self

    async def read_secret(self, namespace, *, route, urgent=False, spare=False):
        await asyncio.sleep(self.read_live)
        return SecretView(namespace, "2", b"another", route)

    async def connect(self, secret):
        return SimpleNamespace(version=partial(self.version, secret.route))

    async def version(self, route, *, new_connection=False, within=None):
        self.asked.append((route, new_connection, within))
        answer = self.answers.pop(0) if self.answers else None
        if answer is None:
            return "v1.33.0"
        self.off += self.jump
        raise answer


def observer(outside, **changes):
    policy = SimpleNamespace(
        endpoint_mode=True,
        secret_names={Route.INTERNAL: "internal", Route.EXTERNAL: "external"},
        probe_timeout=changes.get("probe_timeout", 30.0),
        suspect_interval=5.0,
        failure_threshold=3,
        success_threshold=1,
        internal_failure_backoff=7.0,
    )
    env: Any = SimpleNamespace(policy=policy, seed=outside, connector=outside, clock=outside)
    return PathProbe(env, SHOOT)


async def probe(outside, **changes):
    return await observer(outside, **changes).probe(None, STAKES)


async def test_the_external_path_is_tried_on_a_new_connection_and_the_internal_one_on_the_kept():
    outside = Outside()
    assert isinstance((await probe(outside)).result, PathReading)
    assert [(route, new) for route, new, _ in outside.asked] == [
        (Route.INTERNAL, False),
        (Route.EXTERNAL, True),
    ]


@pytest.mark.parametrize(("timeout", "most"), [(30.0, 5.0), (2.0, 2.0)])
async def test_a_request_ends_a_little_before_its_attempt(timeout, most):
    outside = Outside()
    await probe(outside, probe_timeout=timeout)
    assert all(most * 0.85 <= within < most for _, _, within in outside.asked)


@pytest.mark.parametrize(
    ("of", "reason", "waits"),
    [
        (RequestKind.INTERNAL, VerdictReason.UNREACHABLE, 7.0),
        (RequestKind.INTERNAL, VerdictReason.CREDENTIALS_INVALID, None),
        (RequestKind.EXTERNAL, VerdictReason.UNREACHABLE, None),
    ],
)
async def test_after_a_failure_of_the_internal_path_it_waits_as_long_as_configured(
    of, reason, waits
):
    assert observer(Outside()).backoff(Failure(reason, "so", of)) == waits


@pytest.mark.parametrize("jump", [5.6, 6.5, 20.0])
async def test_a_failure_while_the_process_stood_still_says_nothing_about_the_path(jump):
    """At half a second a turn, a new connection takes longer than an attempt, and the kept one a second and a half."""
    outside = Outside([None, errors.Unreachable("no answer within 4.9 s")], jump=jump)
    failure = (await probe(outside)).result
    assert isinstance(failure, Failure)
    assert failure.reason is VerdictReason.STALE_READING
    assert "was frozen" in failure.message


async def test_a_failure_that_took_as_long_as_it_may_counts():
    outside = Outside([None, errors.Unreachable("no answer within 4.9 s")], jump=5.0)
    found = (await probe(outside)).result
    assert isinstance(found, PathReading)
    assert found.external is not None
    assert found.external.reason is VerdictReason.UNREACHABLE


async def test_a_401_whose_secret_cannot_be_read_again_in_time_says_nothing_about_the_path():
    outside = Outside([None, errors.Unauthorized("401", status=401)], read_live=60.0)
    found = await probe(outside)
    assert isinstance(found.result, Failure)
    assert found.result.reason is VerdictReason.CREDENTIALS_INVALID
    assert found.ended - found.started == pytest.approx(5.0, abs=0.1)


async def test_a_401_is_tried_once_more_with_what_the_secret_says_now():
    outside = Outside([None, errors.Unauthorized("401", status=401)], read_live=0.5)
    found = await probe(outside)
    assert isinstance(found.result, PathReading)
    assert found.result.external is None
    assert [route for route, _, _ in outside.asked] == [
        Route.INTERNAL,
        Route.EXTERNAL,
        Route.EXTERNAL,
    ]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (errors.AddressForbidden("a loopback address"), VerdictReason.CREDENTIALS_REFUSED),
        (errors.NameUnresolved("no address"), VerdictReason.NAME_UNRESOLVED),
        (errors.CertificateUntrusted("expired"), VerdictReason.CERTIFICATE_UNTRUSTED),
        pytest.param(
            errors.LimitExceeded("size", "too long"), VerdictReason.TOO_LARGE, id="too long"
        ),
        pytest.param(
            errors.LimitExceeded("time", "slow"), VerdictReason.TOO_LARGE, id="begun, not ended"
        ),
        (errors.BadAnswer("html"), VerdictReason.BAD_ANSWER),
        (errors.ServerFault("503", status=503), VerdictReason.BAD_ANSWER),
        (errors.NotFound("404", status=404), VerdictReason.BAD_ANSWER),
        (errors.Throttled("429", status=429), VerdictReason.THROTTLED),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
async def test_what_the_external_path_answers_instead_of_a_version_is_neither(error, reason):
    found = (await probe(Outside([None, error]))).result
    assert isinstance(found, Failure)
    assert found.reason is reason


# Endpoint mode where what was seen may not be what is so: a busy process, a frozen one.


class Swallowing(Outside):
    """The external path gives no answer; a request ends `within` its time, as far as the loop comes to it."""

    async def version(self, route, *, new_connection=False, within=None):
        if route is Route.INTERNAL:
            return "v1.33.0"
        try:
            async with asyncio.timeout(within):
                await asyncio.Event().wait()
        except TimeoutError as error:
            raise errors.Unreachable(f"no answer within {within} s") from error


@pytest.mark.looptime(False)
async def test_a_loop_that_is_busy_when_an_attempt_ends_does_not_make_a_401_of_it():
    outside = Swallowing()
    asyncio.get_running_loop().call_later(0.48, time.sleep, 0.1)  # over the ends of both
    found = (await observer(outside, probe_timeout=0.55).probe(None, STAKES)).result
    assert isinstance(found, PathReading)
    assert found.external is not None
    assert found.external.reason is VerdictReason.UNREACHABLE


class Frozen(Outside):
    """The process stands still in an attempt that has an answer afterwards."""

    async def version(self, route, *, new_connection=False, within=None):
        answer = await super().version(route, new_connection=new_connection, within=within)
        self.off += self.jump
        return answer


async def test_an_answer_from_before_the_process_stood_still_says_nothing_about_now():
    found = (await observer(Frozen(jump=3600.0)).probe(None, STAKES)).result
    assert isinstance(found, Failure)
    assert found.reason is VerdictReason.STALE_READING


async def test_an_outage_from_before_the_process_stood_still_is_not_confirmed():
    outside = Frozen([None, errors.Unreachable("refused")])
    watching = observer(outside)
    first = await watching.probe(None, STAKES)
    assert isinstance(first.result, PathReading)
    outside.jump = 3600.0
    found = (await watching.confirm(None, first)).result
    assert isinstance(found, Failure)
    assert found.reason is VerdictReason.STALE_READING
