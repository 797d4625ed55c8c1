"""Who can answer is followed, once, and a token is sent nowhere that the operator did not agree to."""

import ssl

import pytest

from app.cli.client import ApiCall, Client
from app.cli.problems import CommandFailed
from app.cli.tokens import NoToken
from app.cli.transports import DirectTransport
from app.core.config.values import origin
from tests.cli.conftest import run
from tests.cli.server import FakeApi, page, problem, standby

SHOOTS = "GET /shoots"
POD = "dwd-prober-6d5f-abcde"
TOKEN = "a-token-that-is-a-secret"


def elsewhere(peer):
    return problem(503, "loop-not-here", "Elsewhere", "another process", loop="prober", peer=peer)


@pytest.fixture
def leader():
    with FakeApi() as found:
        yield found.on(SHOOTS, page())


@pytest.fixture
def token(tmp_path):
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    return f"--token-file={path}"


def test_the_leader_that_a_standby_names_is_asked_with_the_same_request(api, dwd, leader, token):
    api.on(SHOOTS, standby(f"127.0.0.1:{leader.port}"))
    ran = dwd("shoots", token)
    assert (ran.code, ran.err) == (0, "")
    assert [api.lines, leader.lines] == [[SHOOTS], [SHOOTS]]
    (asked,) = leader.asked
    assert asked.query == {"limit": "500"}
    assert asked.headers["Authorization"] == f"Bearer {TOKEN}"


def test_the_leader_of_the_other_loop_is_found_by_two_steps(api, dwd, leader):
    with FakeApi() as between:
        between.on(SHOOTS, standby(f"127.0.0.1:{leader.port}"))
        api.on(SHOOTS, elsewhere(between.url))
        assert dwd("shoots").code == 0
        assert [each.lines for each in (api, between, leader)] == [[SHOOTS]] * 3


def test_two_standbys_that_name_each_other_are_asked_once_each(api, dwd):
    with FakeApi() as other:
        other.on(SHOOTS, standby(f"127.0.0.1:{api.port}"))
        api.on(SHOOTS, standby(f"127.0.0.1:{other.port}"))
        assert dwd("shoots").code == 6
        assert [api.lines, other.lines] == [[SHOOTS], [SHOOTS]]


def test_where_nobody_leads_nobody_is_followed(api, dwd):
    api.on(SHOOTS, standby(None, None))
    ran = dwd("shoots")
    assert (ran.code, len(api.asked)) == (6, 1)
    assert ran.err == "dwd: Only the leader: None leads\n"


def test_a_leader_without_an_address_is_named_with_the_command_that_leads_there(api, dwd):
    api.on(SHOOTS, standby(None))
    ran = dwd("shoots")
    here = api.port + 1
    assert ran.code == 6
    assert ran.err == (
        f"dwd: Only the leader: {POD}_3f1c leads\n"
        f"    from outside the cluster: kubectl -n garden port-forward pod/{POD} {here}:{api.port}, "
        f"then --server http://127.0.0.1:{here}\n"
        "    or let dwd do it: --port-forward garden/dwd-prober\n"
    )


def test_a_leader_that_cannot_be_reached_from_here_is_named_with_that_command_too(api, dwd):
    api.on(SHOOTS, standby("127.0.0.1:1"))
    ran = dwd("shoots")
    assert ran.code == 6
    assert "; there: http://127.0.0.1:1 cannot be reached: Connection refused\n" in ran.err
    assert f"kubectl -n garden port-forward pod/{POD} {api.port + 1}:1, then" in ran.err


def test_an_identity_that_is_no_pods_is_in_no_command(api, dwd):
    api.on(SHOOTS, standby(None, "x; rm -rf /_1"))
    assert "kubectl" not in dwd("shoots").err


def test_a_token_is_not_sent_to_another_machine_in_the_clear(api, dwd, token):
    api.on(SHOOTS, standby("192.0.2.1:8080"))
    ran = dwd("shoots", token)
    assert ran.code == 6
    assert "the token is not sent to http://192.0.2.1:8080" in ran.err
    assert "--allow-plain-http" in ran.err
    assert TOKEN not in ran.err


def test_nor_to_the_server_itself(token):
    ran = run("shoots", "--server=http://192.0.2.1:8080", token)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "dwd: the token is not sent to http://192.0.2.1:8080: plain http is not encrypted\n"
        "    use https, or give --allow-plain-http\n"
    )


def test_unless_the_operator_says_so(token):
    flags = ("--server=http://192.0.2.1:8080", "--timeout=50ms", "--allow-plain-http")
    ran = run("shoots", *flags, token)
    assert ran.code == 1
    assert "192.0.2.1:8080" in ran.err
    assert "the token" not in ran.err


def test_without_a_token_there_is_nothing_to_protect():
    ran = run("shoots", "--server=http://192.0.2.1:8080", "--timeout=50ms")
    assert (ran.code, "the token" in ran.err) == (1, False)


def test_a_peer_without_an_url_is_nobody(api, dwd):
    api.on(SHOOTS, elsewhere(None))
    ran = dwd("shoots")
    assert (ran.code, ran.err) == (6, "dwd: Elsewhere: another process\n")


@pytest.mark.looptime(False)
@pytest.mark.blocking  # the other servers are in threads of their own
async def test_where_the_leader_has_gone_the_server_is_asked_again(api):
    tls = ssl.create_default_context()
    client = Client(DirectTransport(origin(api.url)), NoToken(), tls, timeout=5.0)
    with FakeApi() as second:
        second.on(SHOOTS, page())
        async with client:
            with FakeApi() as first:
                first.on(SHOOTS, page())
                named = [standby(f"127.0.0.1:{each.port}") for each in (first, second)]
                api.on(SHOOTS, *named)
                await client.ask(ApiCall("GET", "shoots"))
                await client.ask(ApiCall("GET", "shoots"))
                assert [len(api.asked), len(first.asked)] == [1, 2], "it is remembered"
            with pytest.raises(CommandFailed) as caught:
                await client.ask(ApiCall("GET", "shoots"))
            assert caught.value.passing
            await client.ask(ApiCall("GET", "shoots"))
        assert [len(api.asked), len(second.asked)] == [2, 1]
