"""The flags that say who may call the API, how safe the way there is, and what others are told of us."""

from pathlib import Path

import pytest

from app.core.config.flags import read_flags, usage
from app.core.config.settings import (
    EVERYWHERE,
    HERE_ONLY,
    DemoSettings,
    Exposure,
    ProberSettings,
    ServeSettings,
    WeederSettings,
)
from app.core.config.values import AuthMode, ListenAddress, address
from app.core.errors import ConfigurationError

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
TLS = ("--tls-cert-file=c", "--tls-private-key-file=k")
PLAIN = ("--allow-plain-http",)
TOKEN = ("--auth-mode=token", "--auth-token-file=t")
KUBERNETES = ("--auth-mode=kubernetes",)
ELSEWHERE = ("--api-bind-addr=10.0.0.1:8443",)
ADDRESS = ListenAddress("10.0.0.1", 8443)
OFF = (
    "the API is on 127.0.0.1:8080 only: there is neither --tls-cert-file with --tls-private-key-file nor "
    "--allow-plain-http"
)


def settings(*words, model=ProberSettings, environ=None):
    return read_flags(model, ("--config-file=f", *words), environ or {}, "dwd").settings


def mistakes(*words, model=ProberSettings, environ=None):
    with pytest.raises(ConfigurationError) as caught:
        read_flags(model, ("--config-file=f", *words), environ or {}, "dwd")
    return [str(each) for each in caught.value.mistakes]


@pytest.mark.parametrize(("words", "environ"), [((), POD), (KUBERNETES, {}), (TOKEN, {})])
def test_where_nothing_safe_is_configured_the_api_is_for_this_machine_and_that_is_said(
    words, environ
):
    found = settings(*words, environ=environ).exposure
    assert (found.address, found.tls, found.off) == (HERE_ONLY, False, OFF)


@pytest.mark.parametrize("mode", [KUBERNETES, TOKEN], ids=["kubernetes", "token"])
@pytest.mark.parametrize("way", [TLS, PLAIN], ids=["tls", "plain"])
@pytest.mark.parametrize(
    ("where", "expected"), [((), EVERYWHERE), (ELSEWHERE, ADDRESS)], ids=["default", "given"]
)
def test_a_safe_way_makes_the_api_reachable(mode, way, where, expected):
    found = settings(*mode, *way, *where).exposure
    assert found == Exposure(AuthMode(mode[0].partition("=")[2]), expected, tls=way is TLS)


@pytest.mark.parametrize("mode", [KUBERNETES, TOKEN], ids=["kubernetes", "token"])
@pytest.mark.parametrize("where", ["10.0.0.1:8443", "127.0.0.1:8080", ":8080"])
def test_an_address_without_a_safe_way_is_a_mistake(mode, where):
    name = mode[0].partition("=")[2]
    assert mistakes(*mode, f"--api-bind-addr={where}") == [
        (
            f"--allow-plain-http: is required for --api-bind-addr={where} where there is no --tls-cert-file: with "
            f"--auth-mode={name} tokens are sent there; without --api-bind-addr the API is on 127.0.0.1:8080 only"
        )
    ]


@pytest.mark.parametrize("where", ["127.0.0.1:1", "127.8.0.1:1", "localhost:1", "[::1]:1"])
@pytest.mark.parametrize("way", [(), TLS, PLAIN], ids=["", "tls", "plain"])
def test_without_authentication_the_api_is_on_a_loopback_address(where, way):
    found = settings(f"--api-bind-addr={where}", "--auth-mode=none", *way).exposure
    assert found.address.loopback
    assert (found.mode, found.tls, found.off) == (AuthMode.NONE, way is TLS, None)


@pytest.mark.parametrize(
    "where", [":8080", "0.0.0.0:8080", "10.0.0.1:8080", "[::]:8080", "[::ffff:10.0.0.1]:8080"]
)
@pytest.mark.parametrize("way", [(), TLS, PLAIN], ids=["", "tls", "plain"])
def test_without_authentication_the_api_is_nowhere_else(where, way):
    message = (
        "--auth-mode: must be kubernetes or token, not none, as "
        f"--api-bind-addr={address(where)} is no loopback address"
    )
    assert mistakes(f"--api-bind-addr={where}", *way) == [message]


def test_in_a_pod_callers_are_reviewed_and_elsewhere_nobody_is_asked():
    assert settings(environ=POD).auth_mode is AuthMode.KUBERNETES
    assert settings("--kubeconfig=f", environ=POD).auth_mode is AuthMode.KUBERNETES
    assert settings(environ={"KUBERNETES_SERVICE_HOST": ""}).auth_mode is AuthMode.NONE
    assert settings().auth_mode is AuthMode.NONE


def test_what_is_given_wins_over_where_we_are():
    assert settings("--auth-mode=none", environ=POD).exposure == Exposure(AuthMode.NONE, HERE_ONLY)
    found = settings(environ=POD | {"DWD_AUTH_MODE": "token", "DWD_AUTH_TOKEN_FILE": "t"})
    assert (found.auth_mode, found.auth_token_file) == (AuthMode.TOKEN, Path("t"))


def test_the_arguments_of_gardener_start_the_watchdog_with_its_api_for_this_machine():
    gardener = ("--kube-api-qps=20.0", "--kube-api-burst=100", "--enable-leader-election=true")
    found = settings(*gardener, "--zap-log-level=INFO", environ=POD)
    assert found.exposure == Exposure(AuthMode.KUBERNETES, HERE_ONLY, off=OFF)


@pytest.mark.parametrize("model", [ProberSettings, WeederSettings])
def test_every_loop_has_these_flags(model):
    words = (*TLS, *TOKEN, "--metrics-auth", "--peer-url=http://dwd:8080")
    assert settings(*words, model=model).exposure.tls


def test_serve_has_them_too():
    files = ("--prober-config-file=p", "--weeder-config-file=w")
    found = read_flags(ServeSettings, (*files, *TLS, *TOKEN), {}, "dwd").settings
    assert found.exposure == Exposure(AuthMode.TOKEN, EVERYWHERE, tls=True)


def test_the_demo_is_for_this_machine_alone_even_in_a_pod():
    found = read_flags(DemoSettings, (), POD, "dwd").settings
    assert found.exposure == Exposure(AuthMode.NONE, HERE_ONLY)
    with pytest.raises(ConfigurationError) as caught:
        read_flags(DemoSettings, ("--api-bind-addr=:1",), {}, "dwd")
    assert [str(each) for each in caught.value.mistakes] == [
        (
            '--api-bind-addr: must be a loopback address such as 127.0.0.1:8080, not ":1": '
            "everybody who can reach it may do everything"
        )
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--auth-mode=oidc"],
            '--auth-mode: must be one of kubernetes, token, none, not "oidc"',
        ),
        (["--auth-mode=token"], "--auth-token-file: is required with --auth-mode=token"),
        (["--auth-token-file=t"], "--auth-token-file: is for --auth-mode=token only, not none"),
        (
            [*KUBERNETES, "--auth-token-file=t"],
            "--auth-token-file: is for --auth-mode=token only, not kubernetes",
        ),
        (
            ["--tls-cert-file=c"],
            "--tls-private-key-file: must be given together with --tls-cert-file",
        ),
        (
            ["--tls-private-key-file=k"],
            "--tls-private-key-file: must be given together with --tls-cert-file",
        ),
        (
            ["--tls-cert-file=a\0b", "--tls-private-key-file=k"],
            "--tls-cert-file: must be the path of a file",
        ),
        (["--allow-plain-http=yes"], '--allow-plain-http: must be true or false, not "yes"'),
        (["--metrics-auth=on"], '--metrics-auth: must be true or false, not "on"'),
        (
            ["--peer-url=dwd:8080"],
            '--peer-url: must be http:// or https:// with a host and no path, not "dwd:8080"',
        ),
        (
            ["--peer-url=http://dwd/api"],
            '--peer-url: must be http:// or https:// with a host and no path, not "http://dwd/api"',
        ),
        (
            ["--peer-url=http://dwd?x"],
            '--peer-url: must be http:// or https:// with a host and no path, not "http://dwd?x"',
        ),
        (
            ["--peer-url=http://dwd:99999"],
            '--peer-url: must be http:// or https:// with a host and no path, not "http://dwd:99999"',
        ),
        (
            ["--peer-url=https://user:hunter2@dwd"],
            "--peer-url: must be http:// or https:// with a host and no path, not one with a user",
        ),
        (
            ["--cors-allow-origin=*"],
            '--cors-allow-origin: must be origins such as https://dashboard.example.org, not "*"',
        ),
        (
            ["--cors-allow-origin=null"],
            '--cors-allow-origin: must be origins such as https://dashboard.example.org, not "null"',
        ),
        (
            ["--cors-allow-origin=https://*.example.org"],
            (
                "--cors-allow-origin: must be origins such as https://dashboard.example.org, not "
                '"https://*.example.org"'
            ),
        ),
        (
            ["--cors-allow-origin=https://a.example.org,https://b.example.org/"],
            (
                "--cors-allow-origin: must be origins such as https://dashboard.example.org, not "
                '"https://b.example.org/"'
            ),
        ),
        *(
            (
                [f"--trusted-proxies=10.0.0.1,{what}"],
                f'--trusted-proxies: must be IP addresses or networks such as 10.0.0.0/8, not "{what}"',
            )
            for what in ("*", "proxy.garden", "10.0.0.1/8", "10.0.0.1:80", "10.0.0.0/33", "[::1]")
        ),
        *(
            (
                [f"--trusted-proxies={what}"],
                f'--trusted-proxies: must not cover all addresses, as "{what}" does',
            )
            for what in ("0.0.0.0/0", "::/0")
        ),
        (
            ["--advertise-address=dwd-0"],
            '--advertise-address: must be an IP address, not "dwd-0"',
        ),
        *(
            (
                [f"--advertise-address={where}"],
                f'--advertise-address: must be an IP address that others can reach, not "{where}"',
            )
            for where in ("127.0.0.1", "::1", "0.0.0.0", "169.254.1.1", "fe80::1%eth0", "224.0.0.1")  # noqa: S104 - refused
        ),
        (
            ["--leader-endpointslice=DWD"],
            '--leader-endpointslice: must be the name of an EndpointSlice, not "DWD"',
        ),
    ],
)
def test_a_wrong_flag_is_refused_with_its_exact_message(words, message):
    assert mistakes(*words) == [message]


def test_all_mistakes_are_said_at_once():
    found = mistakes("--auth-mode=x", "--tls-cert-file=c", "--peer-url=x", "--api-bind-addr=y")
    assert [each.partition(":")[0] for each in found] == [
        "--api-bind-addr",
        "--auth-mode",
        "--tls-private-key-file",
        "--peer-url",
    ]


def test_an_origin_is_written_as_browsers_send_it():
    words = "--cors-allow-origin=https://A.example.org:443, http://b:80,http://b,https://[2001:DB8::1]:8443"
    assert settings(words).cors_allow_origin == (
        "https://a.example.org",
        "http://b",
        "https://[2001:db8::1]:8443",
    )
    assert settings("--cors-allow-origin=").cors_allow_origin == ()


def test_proxies_are_addresses_and_networks():
    words = "--trusted-proxies=10.0.0.1, 10.1.0.0/16,2001:DB8::/32,"
    assert [str(each) for each in settings(words).trusted_proxies] == [
        "10.0.0.1/32",
        "10.1.0.0/16",
        "2001:db8::/32",
    ]
    assert settings("--trusted-proxies=").trusted_proxies == ()


def test_the_peer_is_named_without_a_slash_at_its_end():
    assert settings("--peer-url=https://dwd-weeder.garden:8443/").peer_url == (
        "https://dwd-weeder.garden:8443"
    )
    assert settings("--peer-url=").peer_url is None


@pytest.mark.parametrize(
    ("text", "found"), [("10.1.2.3", "10.1.2.3"), ("2001:DB8:0::1", "2001:db8::1")]
)
def test_the_address_of_a_replica_is_that_of_its_pod(text, found):
    assert settings(f"--advertise-address={text}").advertise_address == found
    assert settings(environ={"POD_IP": text}).advertise_address == found


def test_the_flag_wins_over_our_variable_and_that_over_the_one_of_the_pod():
    environ = {"POD_IP": "10.0.0.1", "DWD_ADVERTISE_ADDRESS": "10.0.0.2"}
    assert settings(environ=environ).advertise_address == "10.0.0.2"
    assert settings("--advertise-address=10.0.0.3", environ=environ).advertise_address == "10.0.0.3"
    assert settings(environ={"POD_IP": ""}).advertise_address is None


def test_a_wrong_variable_of_the_pod_is_called_by_its_own_name():
    assert mistakes(environ={"POD_IP": "here"}) == ['POD_IP: must be an IP address, not "here"']
    assert mistakes(environ={"DWD_API_BIND_ADDR": "x", "DWD_AUTH_MODE": "y"}) == [
        'DWD_API_BIND_ADDR: must be HOST:PORT or :PORT, not "x"',
        'DWD_AUTH_MODE: must be one of kubernetes, token, none, not "y"',
    ]


def test_help_says_what_the_defaults_depend_on():
    text = usage(ProberSettings)
    assert "(default kubernetes in a cluster, else none)" in " ".join(text.split())
    assert "(default :8080, or 127.0.0.1:8080)" in " ".join(text.split())
    assert "  --cors-allow-origin ORIGIN[,ORIGIN…]\n" in text
