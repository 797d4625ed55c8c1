"""Liveness and readiness."""

from typing import cast

import pytest
from fastapi.testclient import TestClient

from app.api.application import create_health_app
from app.api.health import Check, Health, seed_checks
from app.core.clock import Clock
from app.core.kube.seed import SeedCluster
from app.core.ports import Watched, WatchState


def client(live=(), ready=()) -> TestClient:
    return TestClient(create_health_app(Health(live, ready)))


def broken():
    raise ValueError("s3cr3t")


FINE = Check("loops", lambda: None)
BAD = Check("clusters-synced", lambda: "not listed yet")
LATE = Check("secrets-contact", lambda: "no contact for 120s", advisory=True)


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz"])
def test_health_is_ok_in_plain_text(path):
    answer = client([FINE], [FINE]).get(path)
    assert (answer.status_code, answer.text) == (200, "ok")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


def test_verbose_names_each_check():
    answer = client(ready=[FINE, LATE]).get("/readyz?verbose")
    assert answer.status_code == 200
    assert answer.text == (
        "[+]loops ok\n[!]secrets-contact warning: no contact for 120s\nreadyz check passed\n"
    )


def test_a_failed_check_is_503_and_named_without_being_asked():
    answer = client(ready=[FINE, BAD]).get("/readyz")
    assert answer.status_code == 503
    assert answer.text == (
        "[+]loops ok\n[-]clusters-synced failed: not listed yet\nreadyz check failed\n"
    )


def test_advice_never_fails_a_check():
    assert client(ready=[LATE]).get("/readyz").text == "ok"


def test_liveness_and_healthz_do_not_ask_for_readiness():
    found = client(live=[FINE], ready=[BAD])
    assert found.get("/livez").status_code == 200
    assert found.get("/healthz").status_code == 200
    assert found.get("/readyz").status_code == 503


def test_a_check_that_breaks_is_a_failed_one_and_shows_no_text():
    answer = client(live=[Check("odd", broken)]).get("/livez")
    assert answer.status_code == 503
    assert "[-]odd failed: the check itself failed, see the log" in answer.text
    assert "s3cr3t" not in answer.text


def test_trouble_is_one_printable_line():
    check = Check("x", lambda: "a\n[+]forged ok\x1b[31m")
    lines = client(live=[check]).get("/livez").text.splitlines()
    assert lines == ["[-]x failed: a [+]forged ok [31m", "livez check failed"]


class FakeSeed:
    def __init__(self, **states):
        self.states = states

    def watch_state(self, what):
        return self.states.get(str(what), WatchState(synced=True, last_contact=100.0))


def seed_with(**states) -> SeedCluster:
    return cast("SeedCluster", FakeSeed(**states))  # only its watches are asked


def test_each_watch_has_a_check_for_its_list_and_one_for_its_contact():
    checks = seed_checks(seed_with(), Clock(100.0, lambda: 0.0))
    assert [each.name for each in checks if not each.advisory] == [f"{w}-synced" for w in Watched]
    assert [each.trouble() for each in checks] == [None] * 8


def test_a_watch_that_is_not_listed_fails_and_one_without_contact_only_warns():
    clock = Clock(300.0, lambda: 0.0)
    seed = seed_with(clusters=WatchState(synced=False, last_contact=None))
    found = {each.name: each for each in seed_checks(seed, clock)}
    assert found["clusters-synced"].trouble() == "not listed yet"
    assert found["clusters-contact"].trouble() == "no contact yet"
    assert found["secrets-synced"].trouble() is None
    assert found["secrets-contact"].trouble() == "no contact for 200s"
    assert found["secrets-contact"].advisory
