"""Endpoint mode where what was seen may not be what is so: a busy process, a frozen one."""

import asyncio
import time
from types import SimpleNamespace

import pytest

from app.core import errors
from app.core.model.probing import Failure, PathReading, VerdictReason
from app.core.model.shoots import Route
from tests.prober.test_path_attempts import STAKES, Outside, observer


class Swallowing(Outside):
    """The external path gives no answer; a request ends `within` its time, as far as the loop comes to it."""

    async def connect(self, secret):
        async def version(*, new_connection=False, within=None):
            if secret.route is Route.INTERNAL:
                return "v1.33.0"
            try:
                async with asyncio.timeout(within):
                    await asyncio.Event().wait()
            except TimeoutError as error:
                raise errors.Unreachable(f"no answer within {within} s") from error

        return SimpleNamespace(version=version)


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

    async def connect(self, secret):
        answers = await super().connect(secret)

        async def version(*, new_connection=False, within=None):
            answer = await answers.version(new_connection=new_connection, within=within)
            self.off += self.jump
            return answer

        return SimpleNamespace(version=version)


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


async def test_a_failure_of_a_loop_that_comes_round_too_late_says_nothing_about_the_path():
    """At half a second a turn, a new connection takes longer than an attempt, and the kept one a second and a half."""
    outside = Outside([None, errors.Unreachable("no answer within 4.9 s")], jump=5.6)
    found = (await observer(outside).probe(None, STAKES)).result
    assert isinstance(found, Failure)
    assert found.reason is VerdictReason.STALE_READING
