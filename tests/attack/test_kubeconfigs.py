"""Kubeconfigs that are there to keep the event loop: what a Secret may hold costs it 10 ms at most."""

import time
from contextlib import suppress

import pytest

from app.core.clock import Clock
from app.core.errors import CredentialRefused
from app.core.kube.kubeconfig import ServerPolicy
from app.core.kube.shoot import ShootConnector
from app.core.metrics import Metrics
from app.core.model.shoots import SecretView
from tests.attack.kubeconfigs import ACCEPTED, HOSTILE, NAMESPACE

pytestmark = pytest.mark.looptime(False)

MOST = 0.010
"""Seconds of the loop's own thread, the best of a few: others use the machine as well."""
WITHIN = 2.0
"""Seconds until it is known what the kubeconfig is, whoever works on it."""


async def connected(raw):
    """What the loop worked for it, and how long it took; whether it is accepted."""
    connector = ShootConnector(Clock.system(), Metrics(), ServerPolicy())
    begun, worked = time.perf_counter(), time.thread_time()
    try:
        await connector.connect(SecretView(NAMESPACE, "1", raw))
    except CredentialRefused:
        accepted = False
    else:
        accepted = True
    worked, took = time.thread_time() - worked, time.perf_counter() - begun
    await connector.close()
    return worked, took, accepted


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_kubeconfig_keeps_the_loop_for_10_ms_at_most(name):
    raw, tries = HOSTILE[name](), 3
    while True:
        worked, took, accepted = await connected(raw)
        assert accepted == (name in ACCEPTED)
        tries -= 1
        if (worked < MOST and took < WITHIN) or not tries:
            break
    assert worked < MOST
    assert took < WITHIN


@pytest.mark.parametrize(
    "name", ["100 authorities", "a key of DSA that is as long as may be"], ids=["taken", "refused"]
)
async def test_what_a_thread_works_for_a_kubeconfig_is_taken_from_the_share_of_its_shoot(name):
    connector = ShootConnector(Clock.system(), Metrics(), ServerPolicy())
    with suppress(CredentialRefused):
        await connector.connect(SecretView(NAMESPACE, "1", HOSTILE[name]()))
    assert connector.consumer(NAMESPACE).spent > 0.001
    await connector.close()


def test_there_are_enough_of_them():
    assert len(HOSTILE) >= 40
    assert set(HOSTILE) > ACCEPTED
