"""Endpoint mode and endpoint probes in the chart: what does not go together, what is allowed, what is reached."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import Draft7Validator

from app.core.config.policy_files import parse_prober
from app.core.errors import ConfigurationError
from app.core.model import names
from tests.chart.rendering import Json, Renderer
from tests.chart.valuesfiles import over_defaults, refused, schema

TCP: Json = {"tcpSocket": {"port": 1}}
HOST: Json = {"host": "x.org"}
PODS: Json = {"podSelector": {"matchLabels": {"app": "x"}}}
COMMAND: Json = {"exec": {"command": ["/bin/true"]}}
real = pytest.mark.real


def values(*probes: Json, flags: Json | None = None, **config: Any) -> Json:
    """Values with these probes, whose names are those of the alphabet where they have none."""
    named = [{"name": chr(97 + number), **each} for number, each in enumerate(probes)]
    given = {"endpointProbes": named, **config} if named else config
    return {"prober": {"config": given, "flags": flags or {}}}


def http(**over: Any) -> Json:
    return {"httpGet": {"port": 1, **over}}


def judged(given: Json) -> int:
    """How many warnings the program has for these values.

    Raises:
        ConfigurationError: it refuses them.
    """
    allowed = given["prober"].get("flags", {}).get("allowExec", False)
    file = yaml.safe_dump(over_defaults(given)["prober"]["config"])
    return len(parse_prober(file, "x", strict=True, allow_exec=allowed).warnings)


@pytest.mark.parametrize(("sentence", "given"), refused("endpoints"))
def test_the_program_refuses_what_the_chart_refuses(sentence: str, given: Json) -> None:
    with pytest.raises(ConfigurationError):
        judged(given)


@pytest.mark.parametrize(("sentence", "given"), refused("stricter"))
def test_the_program_warns_of_what_only_the_chart_refuses(sentence: str, given: Json) -> None:
    assert judged(given) == 1


@real
@pytest.mark.parametrize(
    "given",
    [
        values(HOST | TCP, PODS | TCP | {"type": None, "effect": None}),
        values(
            http(host="kube-apiserver.{namespace}.svc."), {"podSelector": {}} | http(port="web")
        ),
        values(HOST | {"grpc": {"port": 1}}, HOST | TCP | {"httpGet": None, "container": None}),
        values(HOST | TCP | {"effect": "GateScaleDown", "periodSeconds": 2, "successThreshold": 2}),
        values(PODS | COMMAND | {"container": "x", "type": "Startup"}, flags={"allowExec": True}),
    ],
)
def test_what_goes_together_is_taken_by_both(render: Renderer, given: Json) -> None:
    assert render(values=given).one("Deployment", "dependency-watchdog-prober")
    judged(given)


@real
def test_in_one_process_the_flag_is_that_of_the_process(render: Renderer) -> None:
    given = values(PODS | COMMAND, flags={"allowExec": True})
    said = render.refusal(values={"mode": "serve", **given})
    assert "- prober.config.endpointProbes[0].exec: needs serve.flags.allowExec" in said


@real
def test_probes_of_a_prober_that_does_not_run_are_not_judged(render: Renderer) -> None:
    given = values(PODS | COMMAND)
    given["prober"]["enabled"] = False
    rendered = render(values=given)
    assert "pods/exec" not in rendered.text
    assert "probe" not in str(rendered.of("NetworkPolicy"))


HOSTS = st.one_of(
    st.sampled_from(
        [
            *("x", "X.org", "x.org.", "x..org", ".x", "-x", "x-", "a-{namespace}.b"),
            *("kube-apiserver.{namespace}.svc", "{namespace}", "{name}", "1.2.3.4"),
            *("1.2.3", "1.2.3.256", "01.2.3.4", "::1", "[::1]", "fe80::1%eth0"),
            *("2001:db8::10", "x.org:443", "x/y", "a@b", "a_b", "a b", "a.1b", "a.b1"),
            *("a.12", "ä.org"),
        ]
    ),
    st.from_regex(r"\A[aA1-]{0,3}(\.[a1-]{1,3}){0,2}\.?\Z"),
)


HOST_SCHEMA = Draft7Validator(schema()["definitions"]["probeHost"])
PORT_SCHEMA = Draft7Validator(schema()["definitions"]["probePort"])


@given(HOSTS)
def test_a_host_is_one_for_both_or_for_none(text: str) -> None:
    allowed = HOST_SCHEMA.is_valid(text)
    assert allowed is names.is_host(text.replace("{namespace}", "shoot--a--b"))


@given(st.from_regex(r"\A[aA1_-]{0,16}\Z"))
def test_a_name_of_a_port_is_one_for_both_or_for_none(text: str) -> None:
    allowed = PORT_SCHEMA.is_valid(text)
    assert allowed is names.is_port_name(text)
