"""What a gate is made of, and what it says of itself: files, features, the port of the metrics."""

import pytest
from starlette.responses import PlainTextResponse

from app.api.auth.gate import open_gate
from app.core.clock import Clock
from app.core.config.settings import DemoSettings
from app.core.errors import ConfigurationError
from app.core.files import EVERY
from app.core.metrics import Metrics
from app.core.model.callers import Access
from tests.api.auth.callers import ask, gate_of, token_file
from tests.support.certs import Authority

PAIR = Authority.create().server()
SCRAPE = Access("get", "", path="/metrics")


async def inside(scope, receive, send):
    await PlainTextResponse("inside")(scope, receive, send)


def files_in(folder):
    """Tokens, certificate and key."""
    certificate, key = folder / "tls.crt", folder / "tls.key"
    certificate.write_bytes(PAIR.certificate)
    key.write_bytes(PAIR.key)
    key.chmod(0o600)
    return token_file(folder), certificate, key


async def gate_on(tokens, certificate, key):
    pair = (f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}")
    return await gate_of("--auth-mode=token", f"--auth-token-file={tokens}", *pair)


def off(metrics: Metrics, feature: str) -> float | None:
    return metrics.registry.get_sample_value("dwd_feature_off", {"feature": feature})


async def test_the_demo_has_a_gate_that_lets_everybody_through():
    gate = await open_gate(DemoSettings(), None, Clock.of_loop(), Metrics())
    assert (await ask(gate.around_api(inside), "/")).status == 200
    assert (gate.tls, gate.files, gate.features_off(), gate.troubles()) == (None, (), {}, {})


async def test_an_api_that_only_this_machine_can_reach_is_a_feature_that_is_off(reviewer, metrics):
    gate = await gate_of("--auth-mode=kubernetes", reviewer=reviewer, metrics=metrics)
    assert set(gate.features_off()) == {"api"}
    assert "127.0.0.1:8080 only" in gate.features_off()["api"]
    assert off(metrics, "api") == 1


@pytest.mark.parametrize("words", [[], ["--auth-mode=kubernetes", "--allow-plain-http"]])
async def test_an_api_that_is_as_it_should_be_is_none(words, reviewer, metrics):
    gate = await gate_of(*words, reviewer=reviewer, metrics=metrics)
    assert gate.features_off() == {}
    assert off(metrics, "api") is None


async def test_a_seed_that_nobody_can_ask_is_one_too():
    gate = await gate_of("--auth-mode=kubernetes", "--allow-plain-http")
    assert gate.features_off() == {"token-review": "there is no seed to ask about callers"}


@pytest.mark.parametrize("missing", ["token", "certificate", "key"])
async def test_a_file_that_is_wrong_at_the_start_is_an_error(tmp_path, missing):
    tokens, certificate, key = files_in(tmp_path)
    {"token": tokens, "certificate": certificate, "key": key}[missing].write_text("junk")
    with pytest.raises(ConfigurationError):
        await gate_on(tokens, certificate, key)


async def test_a_file_that_becomes_wrong_is_a_trouble_and_no_feature_is_off(tmp_path):
    tokens, certificate, key = files_in(tmp_path)
    gate = await gate_on(tokens, certificate, key)
    assert gate.tls is not None
    tokens.write_text("junk")
    key.chmod(0o644)
    for each in gate.files:
        await each.check()
    assert set(gate.troubles()) == {"token file", "TLS certificate and key"}
    assert str(tokens) in gate.troubles()["token file"]
    assert gate.features_off() == {}
    assert (await ask(gate.around_api(inside), "/", token="adas-token")).status == 200


async def test_once_started_it_follows_its_files(tmp_path, tasks, clock):
    path = token_file(tmp_path)
    gate = await gate_of("--auth-mode=token", f"--auth-token-file={path}")
    gate.start(tasks)
    path.write_text("junk")
    while not gate.troubles():  # reading is a thread's, whose time is not virtual
        await clock.sleep(EVERY)
    assert "must be a list" in gate.troubles()["token file"]


# The port of the metrics.


async def test_the_port_of_the_metrics_is_open_unless_it_is_asked_otherwise(reviewer):
    gate = await gate_of("--auth-mode=kubernetes", reviewer=reviewer)
    assert gate.around_metrics(inside) is inside


@pytest.fixture
async def scraped(reviewer, metrics):
    gate = await gate_of("--metrics-auth", reviewer=reviewer, metrics=metrics)
    return gate.around_metrics(inside)


async def test_who_may_get_the_metrics_in_the_seed_may_scrape(scraped, reviewer, counted):
    reviewer.rights.add(("scraper", SCRAPE))
    for _ in range(3):
        assert (await ask(scraped, "/metrics", token="scrapers-token")).status == 200
    assert reviewer.asked == ["TokenReview", "SubjectAccessReview"]
    assert counted() == {"allowed": 3}


@pytest.mark.parametrize("token", [None, "wrong", "alices-token"])
async def test_a_scraper_needs_a_token_for_the_seed_itself(scraped, reviewer, counted, token):
    reviewer.rights.add(("alice", SCRAPE))
    answer = await ask(scraped, "/metrics", token=token)
    assert (answer.status, counted()) == (401, {"unauthenticated": 1})


async def test_a_scraper_needs_the_right_to_it(scraped, counted):
    answer = await ask(scraped, "/metrics", token="alices-seed-token")
    assert (answer.status, counted()) == (403, {"denied": 1})
    assert answer.problem["detail"] == "alice may not get /metrics (a nonResourceURL)"
