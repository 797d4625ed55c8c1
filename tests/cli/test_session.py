"""Lists to their end, looks again and again, scaling runs to their end, streams that break: on virtual time."""

import asyncio
import io
import json
import random
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus

import pytest

from app.cli import program
from app.cli.printing import Printer
from app.cli.problems import CommandFailed, Exit, NoAnswer, ProblemBody, ServerRefused
from app.cli.session import Session
from app.core.clock import Clock
from app.core.config.client_settings import (
    EventsSettings,
    OperationsSettings,
    OutputFormat,
    ScaleSettings,
    ShootsSettings,
)
from app.core.model.instants import parse_rfc3339
from tests.cli import examples
from tests.cli.server import page

NAME = "shoot--a--b"
AWAY = NoAnswer("it does not answer")
FORBIDDEN = ServerRefused(403, ProblemBody(title="No"))
STANDBY = ServerRefused(503, ProblemBody(title="Standby"))


class FakeClient:
    """Answers with what it is given, one after the other; when there is no more, the command is interrupted."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        self.clock = Clock.of_loop()

    async def ask(self, call):
        return json.dumps(self._answer(call)).encode()

    @asynccontextmanager
    async def stream(self, call):
        yield Chunks(self.clock, self._answer(call))

    async def refused(self, target):
        """Every shoot is known."""

    def _answer(self, call):
        self.asked.append((round(self.clock.now() % 100_000, 3), call))
        if not self.answers:
            raise asyncio.CancelledError
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def times(self):
        first = self.asked[0][0]
        return [round(at - first, 3) for at, _ in self.asked]


class Chunks:
    """The chunks of a stream: bytes, seconds in which there are none, how it breaks."""

    def __init__(self, clock, parts):
        self._clock, self._parts = clock, parts

    async def iter_any(self):
        for part in self._parts:
            if isinstance(part, Exception):
                raise part
            if isinstance(part, bytes):
                yield part
            else:
                await self._clock.sleep(part)


@pytest.fixture
def make():
    """A session on these answers, and what it has written."""

    def begin(*answers, output=OutputFormat.TABLE):
        out, err = io.StringIO(), io.StringIO()
        client = FakeClient(*answers)
        printer = Printer(out, err, output, {})
        return Session(client, printer, client.clock, random.Random(1)), client, out, err  # type: ignore[arg-type]

    return begin


# Lists.


async def test_a_list_is_read_to_its_end_and_shown_as_one_page(make):
    first, second = page(examples.SHOOT, following="t", total=2), page(examples.HEALTHY, total=2)
    session, client, out, _ = make(first, second, output=OutputFormat.JSON)
    await program.carry_out(session, ShootsSettings(), ())
    assert json.loads(out.getvalue()) == page(examples.SHOOT, examples.HEALTHY, total=2)
    queries = [dict(call.query) for _, call in client.asked]
    assert queries == [{"limit": "500"}, {"limit": "500", "continue": "t"}]


async def test_a_list_that_leads_back_to_itself_is_not_read_for_ever(make):
    session, client, _, _ = make(page(following="t"), page(following="u"), page(following="t"))
    with pytest.raises(CommandFailed, match="does not end"):
        await program.carry_out(session, ShootsSettings(), ())
    assert len(client.asked) == 3


async def test_names_are_quoted_in_a_path(make):
    session, client, _, _ = make(examples.operation())
    await program.carry_out(session, OperationsSettings(), ("../pause?x#y",))
    assert client.asked[0][1].path == "operations/..%2Fpause%3Fx%23y"


# Looking again and again.


async def watched(made):
    """What a session shows, and complains of, until it is interrupted for want of more answers."""
    session, client, out, err = made
    with pytest.raises(asyncio.CancelledError):
        await program.carry_out(session, ShootsSettings(watch=True), ())
    return client, out.getvalue(), err.getvalue()


async def test_watching_probes_every_two_seconds_until_it_is_interrupted(make):
    client, out, _ = await watched(make(page(), page(), page(examples.SHOOT)))
    assert client.times() == [0, 2, 4, 6]
    assert out.count("no shoots") == 1, "what has not changed is not shown again"
    assert "shoot--acme--prod" in out


async def test_watching_goes_on_where_there_is_no_answer_for_a_while(make):
    client, out, err = await watched(make(page(), AWAY, STANDBY, page(examples.SHOOT)))
    assert len(client.asked) == 5
    assert ["it does not answer" in line for line in err.splitlines()] == [True, False]
    assert "shoot--acme--prod" in out


async def test_watching_says_once_since_when_there_is_no_answer(make):
    client, _, err = await watched(make(page(), AWAY, AWAY, AWAY, page(), AWAY))
    since = [line.split()[4].rstrip(":") for line in err.splitlines()]
    begun = client.asked[0][0]
    assert [round((parse_rfc3339(each) or 0.0) % 100_000 - begun) for each in since] == [0, 8]


async def test_on_a_terminal_it_stays_said_while_there_is_no_answer(make):
    made = make(page(examples.SHOOT), AWAY, AWAY)
    drawn = []

    class Screen:
        def show(self, shown, title):
            drawn.append(title.split()[-2:])

        def trouble(self, text):
            drawn.append(text.split()[:3])

    @contextmanager
    def watching():
        yield Screen()

    made[0].printer.watching = watching
    await watched(made)
    assert drawn[-1] == ["no", "new", "answer"]
    assert len(drawn) == 3


@pytest.mark.parametrize("answers", [(AWAY,), (page(), FORBIDDEN)])
async def test_watching_ends_where_going_on_is_of_no_use(answers, make):
    session, client, _, _ = make(*answers)
    with pytest.raises(CommandFailed):
        await program.carry_out(session, ShootsSettings(watch=True), ())
    assert len(client.asked) == len(answers)


async def test_watching_as_json_is_a_line_for_each_change(make):
    answers = (page(), page(), page(examples.SHOOT))
    _, out, _ = await watched(make(*answers, output=OutputFormat.JSON))
    assert [json.loads(line) for line in out.splitlines()] == [page(), page(examples.SHOOT)]


async def test_watching_a_run_ends_with_it(make):
    session, client, out, _ = make(examples.operation(), examples.operation("Done"))
    await program.carry_out(session, OperationsSettings(watch=True), ("op-1",))
    assert client.times() == [0, 2]
    assert "op-1  Done" in out.getvalue()


async def test_one_answer_at_a_time_is_shown_as_json(make):
    nodes = page(examples.NODE, candidatesAsOf=None)
    session, client, out, _ = make(nodes, output=OutputFormat.JSON)
    settings = ShootsSettings(nodes=True, output=OutputFormat.JSON)
    await program.carry_out(session, settings, (NAME,))
    assert json.loads(out.getvalue()) == nodes
    assert [call.path for _, call in client.asked] == [f"shoots/{NAME}/nodes"]


async def test_people_see_nodes_and_history_below_the_shoot(make):
    session, _, out, _ = make(examples.SHOOT, page(examples.NODE), page(examples.ENTRY))
    await program.carry_out(session, ShootsSettings(nodes=True, history=True), (NAME,))
    found = out.getvalue()
    assert found.index("CONDITION") < found.index("ip-10-250-3-17") < found.index("ScaledDown")


# Waiting for a scaling run.


SCALE = ScaleSettings(reason="because", wait=True)


async def scaled(make, *answers, output=OutputFormat.TABLE):
    skipped = examples.step("Skipped", "Deployment/away", before=None, after=None)
    begun = examples.operation("Running", skipped)
    session, client, out, err = make(begun, *answers, output=output)
    try:
        await program.carry_out(session, SCALE, ("up", NAME))
    except CommandFailed as error:
        return client, out.getvalue(), err.getvalue(), error
    return client, out.getvalue(), err.getvalue(), None


async def test_waiting_says_each_step_once_and_ends_with_the_run(make):
    running = examples.operation("Running", examples.step("Running", ended=None, after=None))
    done = examples.operation("Done", examples.step())
    client, out, _, error = await scaled(make, running, running, done)
    assert error is None
    assert client.times() == [0, 1, 2, 3]
    steps = [line.split(None, 1)[1] for line in out.splitlines()[:5]]
    assert steps == [
        "Running    scaling run op-1",
        "Skipped    Deployment/away",
        "Running    Deployment/kube-controller-manager 0 → -",
        "Done       Deployment/kube-controller-manager 0 → 1",
        "Done       scaling run op-1",
    ]
    assert out.splitlines()[5] == "op-1  Done  scale up of shoot--acme--prod"


@pytest.mark.parametrize("phase", ["Failed", "Cancelled"])
async def test_a_run_that_was_not_done_is_exit_code_7(phase, make):
    _, _, _, error = await scaled(make, examples.operation(phase, message="it broke"))
    assert error is not None
    assert (error.code, str(error)) == (
        Exit.NOT_DONE,
        f"the scaling run op-1 ended as {phase}: it broke",
    )


async def test_waiting_goes_on_under_the_next_leader(make):
    _, _, err, error = await scaled(make, AWAY, AWAY, STANDBY, examples.operation("Done"))
    assert error is None
    assert err.splitlines() == [
        "no answer at the moment: it does not answer",
        "no answer at the moment: Standby",
    ]


@pytest.mark.parametrize("status", [HTTPStatus.GONE, HTTPStatus.NOT_FOUND])
async def test_a_run_that_is_not_known_any_more_was_not_done(make, status):
    gone = ServerRefused(status, ProblemBody(title="Gone"))
    _, _, _, error = await scaled(make, gone)
    assert error is not None
    assert error.code is Exit.NOT_DONE


async def test_waiting_ends_where_one_may_not_probe(make):
    _, _, _, error = await scaled(make, FORBIDDEN)
    assert error is not None
    assert error.code is Exit.NOT_ALLOWED


async def test_whoever_stops_waiting_is_told_that_the_run_goes_on(make):
    session, _, _, err = make(examples.operation())
    with pytest.raises(asyncio.CancelledError):
        await program.carry_out(session, SCALE, ("up", NAME))
    assert err.getvalue() == "The scaling run continues: dwd operations op-1 [--cancel]\n"


async def test_waiting_as_json_is_the_run_as_it_ended(make):
    done = examples.operation("Done")
    _, out, _, _ = await scaled(make, done, output=OutputFormat.JSON)
    assert json.loads(out) == done


# Events.


def event(number, name="shoot-gone", **data):
    return f"id: p-{number}\nevent: {name}\ndata: {json.dumps(data)}\n\n".encode()


async def followed(make, *answers, words=(), output=OutputFormat.TABLE):
    session, client, out, err = make(*answers, output=output)
    error = None
    try:
        await program.carry_out(session, EventsSettings(), words)
    except asyncio.CancelledError:
        pass  # there was no more to answer
    except CommandFailed as failed:
        error = failed
    return client, out.getvalue(), err.getvalue(), error


@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
async def test_events_are_shown_however_they_are_cut_and_their_lines_end(make, end):
    whole = event(1, namespace="a") + b": heartbeat\nid: p-1\n\n" + event(2, namespace="b")
    _, out, _, _ = await followed(make, [bytes([each]) for each in whole.replace(b"\n", end)])
    assert [line.split("  ", 1)[1] for line in out.splitlines()] == ["a  is gone", "b  is gone"]


async def test_a_stream_is_taken_up_where_it_broke(make):
    client, out, err, _ = await followed(
        make,
        [event(1, namespace="a"), event(2, namespace="b")[:-5], NoAnswer("cut")],
        [event(2, namespace="b")],
    )
    ids = [call.headers.get("Last-Event-ID") for _, call in client.asked]
    assert ids == [None, "p-1", "p-2"], "an event that was cut off comes again"
    assert [line.split()[1] for line in out.splitlines()] == ["a", "b"]
    assert err.splitlines()[0].startswith("dwd events: cut; connecting again in ")


async def test_connecting_again_waits_longer_each_time_and_the_server_says_how_long_at_least(make):
    client, _, err, _ = await followed(make, [b"retry: 5000\n\n"], AWAY, AWAY, STANDBY, AWAY, AWAY)
    pauses = [b - a for a, b in zip(client.times(), client.times()[1:], strict=False)]
    assert all(pause >= 5 for pause in pauses)
    assert pauses[-1] > 12
    assert max(pauses) <= 30
    assert err.count("connecting again in") == len(pauses)


async def test_a_stream_that_was_steady_begins_with_a_short_wait(make):
    client, _, _, _ = await followed(make, [], AWAY, AWAY, AWAY, [61.0], [])
    pauses = [b - a for a, b in zip(client.times(), client.times()[1:], strict=False)]
    assert pauses[-2] - 61.0 <= 1.0


@pytest.mark.parametrize("answers", [(AWAY,), ([], FORBIDDEN)], ids=["no first stream", "a denial"])
async def test_following_ends_where_going_on_is_of_no_use(answers, make):
    client, _, _, error = await followed(make, *answers)
    assert error is not None
    assert len(client.asked) == len(answers)


async def test_one_shoot_can_be_followed(make):
    client, _, _, _ = await followed(make, [], words=(NAME,))
    assert dict(client.asked[0][1].query) == {"namespace": NAME}


async def test_events_as_json_are_a_line_each_with_id_and_name(make):
    _, out, _, _ = await followed(make, [event(1, namespace="a")], output=OutputFormat.JSON)
    assert json.loads(out) == {"id": "p-1", "event": "shoot-gone", "data": {"namespace": "a"}}


@pytest.mark.parametrize(
    "chunks",
    [[b"data: x\n\n"], [b"x" * (9 << 20)], [b"data: " + b"x" * (5 << 20) + b"\n"] * 2],
    ids=["no JSON", "an endless line", "an endless event"],
)
async def test_what_is_no_stream_of_this_api_ends_it(chunks, make):
    _, out, _, error = await followed(make, chunks)
    assert error is not None
    assert (error.code, out) == (Exit.FAILED, "")
