"""The pages as the server makes them: what a browser without JavaScript gets."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from markdown_it.common.html_re import HTML_TAG_RE
from starlette.types import ASGIApp

from app.api.auth.authentication import Authentication, SeedAuthenticator
from app.api.auth.authorization import ByRole, Call, DecisionCounter
from app.api.auth.reviews import ReviewService
from app.api.page import site
from app.core.clock import Clock
from app.core.errors import ConfigWarning
from app.core.metrics import Metrics
from app.core.model.callers import Caller, Role
from app.core.model.endpoints import GateReason
from app.core.model.policy import Loop
from app.core.model.probing import NoticeKind
from app.core.model.scaling_runs import OperationPhase, Trigger
from app.core.model.weeding import KeepReason, KeptPod, ServiceKey, WeederPolicy
from app.core.ports import Permission
from app.core.reporting.notices import ScalingNotice
from tests.api.facts import (
    HOME,
    NAMESPACE,
    NOW,
    attempt,
    deleted,
    endpoint,
    gate,
    healthy,
    judgement,
    not_probed,
    pause,
    protected,
    recovery,
    request,
    run,
    service,
)
from tests.api.fakes import application, context
from tests.support.notices import OF_KIND
from tests.support.shown import sections

HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
PAGES = ["/", f"/shoots/{NAMESPACE}", "/operations", "/weeders", "/audit", "/config"]
HOSTILE = "<script>alert(1)</script>\"'\u202e&"


def page_of(client, path="/", status=200):
    answer = client.get(path, headers=HTML)
    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("text/html")
    return answer.text


def words_of(html):
    """What is read of it."""
    return " ".join(" ".join(HTML_TAG_RE.sub(" ", line) for line in html.splitlines()).split())


def troubled(fakes):
    """Shoots that are well, protected, and not probed; and a process of which much needs attention."""
    late = replace(protected("shoot--d--late"), read_at=NOW - 120)
    fakes.shoots.add(healthy("shoot--a--fine"), protected("shoot--b--cut"), late)
    fakes.shoots.add(not_probed("shoot--c--off"))
    fakes.endpoints.closing["shoot--b--cut"] = (gate(reason=GateReason.FAILING),)
    process = fakes.process
    process.missing.append(Permission("list", "", "nodes", ""))
    process.off["token-review"] = "the seed forbids it"
    process.unconfigured.append("shoot--x/Deployment/y")
    process.warnings.append(ConfigWarning("prober.yaml", "the field is unknown", 3))
    process.dry_run = True
    fakes.overrides.add(pause(of=HOME, seconds=900, reason="night shift", author="eve"))
    fakes.overrides.add(pause(of=HOME, name="by-hand"), request(of="shoot--a--fine"))


def explained(fakes):
    """A protected shoot with a past, endpoint probes, and pauses of the API, of kubectl and of all."""
    fakes.shoots.add(replace(protected(), judgements=(judgement("node-0"), judgement("node-1"))))
    for ago in (30, 20, 10):
        notice = ScalingNotice(NAMESPACE, NOW - ago, "ScaledDown", f"{ago} s before")
        fakes.shoots.past.note(notice)
    fakes.endpoints.found[NAMESPACE] = (endpoint(message="HTTP 503"),)
    fakes.endpoints.closing[NAMESPACE] = (gate(reason=GateReason.FAILING),)
    fakes.overrides.add(
        pause(reason="by the API", author="eve"),
        pause(name="night-shift", reason="by hand", author="bob", seconds=900),
        pause(of=HOME, name="works", reason="of all", author="unknown", seconds=600),
        pause(name="over", seconds=-1, reason="long ago"),
    )


def scaled(fakes):
    """Runs of each kind: under way, done and held, done and free, refused, and one of the verdict."""
    done = run("op-2", phase=OperationPhase.DONE, created=NOW - 60, ended=NOW - 57)
    free = replace(done, id="op-3", hold_until=NOW - 60, trigger=Trigger.AUTO, reason="63 of 100")
    refused = {"phase": OperationPhase.REFUSED, "message": "the shoot is not probed"}
    held = run(hold_until=NOW + 60), replace(done, hold_until=NOW + 60)
    fakes.scaling_runs.add(*held, free, run("op-4", ended=NOW, **refused))


def weeded(fakes):
    fakes.process.loops, fakes.process.peer_url = (Loop.WEEDER,), "https://prober.example:8080"
    fakes.process.configured.weeder = WeederPolicy({"kube-apiserver": (), "etcd": ()})
    kept = KeptPod("kcm-1-b", NOW, KeepReason.NOT_WAITING, "no container waits")
    fakes.weeders.add(service(recovery(deletions=(deleted(),), spared=(kept,))))
    fakes.weeders.add(service(key=ServiceKey(NAMESPACE, "etcd")))


def standing_by(fakes):
    fakes.process.leading = False
    fakes.overrides.add(pause(reason="maintenance", author="eve"))
    fakes.shoots.add(healthy())


def audited(fakes):
    fakes.audit.note(attempt(reason="works"))


VIEWS = {
    "all shoots, the worst first, below what deserves a look": (troubled, "/"),
    "one shoot, and why": (explained, f"/shoots/{NAMESPACE}"),
    "scaling runs, and how long each holds verdicts back": (scaled, "/operations"),
    "recoveries: what was deleted, what was left, and why": (weeded, "/weeders"),
    "services that can be weeded though they had no recovery": (
        weeded,
        f"/weeders?namespace={NAMESPACE}",
    ),
    "a process without the prober says where to ask": (weeded, "/"),
    "a standby shows what it knows, and who leads": (standing_by, "/"),
    "attempts": (audited, "/audit"),
}
SHOWN = sections(Path(__file__).with_name("pages.txt"))


def read_in(html):
    """What is read in the middle of a page, line by line."""
    middle = html.partition("<main")[2].partition(">")[2].partition("</main>")[0]
    lines = (words_of(each) for each in middle.splitlines())
    return "".join(f"{each}\n" for each in lines if each)


@pytest.mark.parametrize("name", VIEWS)
def test_a_page_is_read_without_javascript(name, fakes, client):
    arrange, path = VIEWS[name]
    arrange(fakes)
    assert read_in(page_of(client, path)) == SHOWN[name]


def rows_of(html):
    return re.findall(r'<tr id="shoot-([^"]+)"', html)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_takes_nothing_from_elsewhere_and_runs_no_inline_script(client, shoots, path):
    shoots.add(healthy())
    answer = client.get(path, headers=HTML)
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "style=" not in answer.text
    assert not re.search(r"<script(?! type=\"module\" src=\"/static/)", answer.text)
    assert not re.search(r' on[a-z]+="', answer.text)
    assert not re.search(r'(?:src|href)="(?:https?:)?//', answer.text)


def test_static_files_have_the_hash_of_their_content_in_their_name_and_are_kept_for_ever(client):
    urls = set(re.findall(r'"(/static/[^"]+)"', page_of(client)))
    assert len(urls) == 3
    for url in urls:
        answer = client.get(url)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert (
            client.get(url.replace("page.", "page.0", 1).replace("icon.", "icon.0", 1)).status_code
            == 404
        )


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("q=FINE", ["shoot--a--fine"]),
        ("q=63+of+100", ["shoot--b--cut"]),
        ("state=Protected&state=NotProbed", ["shoot--b--cut", "shoot--c--off"]),
        ("sort=name", ["shoot--a--fine", "shoot--b--cut", "shoot--c--off"]),
        ("sort=since", ["shoot--c--off", "shoot--b--cut", "shoot--a--fine"]),
        ("q=nothing+like+that", []),
    ],
)
def test_search_filter_and_sort_are_in_the_url(client, shoots, query, expected):
    shoots.add(healthy("shoot--a--fine"), protected("shoot--b--cut"), not_probed("shoot--c--off"))
    assert rows_of(page_of(client, f"/?{query}")) == expected


def test_who_paused_or_holds_a_shoot_is_found_by_the_search(client, shoots, overrides):
    shoots.add(healthy("shoot--a--fine"), healthy("shoot--b--fine"), healthy("shoot--c--fine"))
    overrides.add(
        pause(of="shoot--b--fine", name="kubectl-1", reason="night shift", author="eve"),
        request(of="shoot--c--fine", author="mallory"),
    )
    for query, found in (
        ("paused+by+eve", ["shoot--b--fine"]),
        ("night", ["shoot--b--fine"]),
        ("pause+kubectl-1", ["shoot--b--fine"]),
        ("held+by", ["shoot--c--fine"]),
    ):
        assert rows_of(page_of(client, f"/?q={query}")) == found


def test_rows_that_changed_after_an_instant_come_without_the_others(client, shoots, process):
    shoots.add(healthy("shoot--a--fine"), healthy("shoot--b--cut"))
    page_of(client)
    process.time += 5
    since = process.time
    process.time += 5
    shoots.add(protected("shoot--b--cut"))
    html = page_of(client, f"/rows?since={since}")
    assert rows_of(html) == ["shoot--b--cut"]
    assert 'data-total="2"' in html
    process.time += 60  # plots move on, which is no change
    assert rows_of(page_of(client, f"/rows?since={process.time}")) == []


def test_codes_are_in_words_and_instants_in_sentences_are_times_of_day():
    assert site.words("LeasesExpired") == "leases expired"
    assert site.words("FlowStarted") == "scaling run began"
    assert site.words("it's not a code") == "it's not a code"
    text = str(site._text("4 probes since 2026-11-25T20:50:10Z said <so>"))
    assert (
        '<time datetime="2026-11-25T20:50:10Z" title="2026-11-25T20:50:10Z" data-form="clock">20:50:10 UTC</time>'
        in text
    )
    assert "&lt;so&gt;" in text


def test_the_audit_has_the_claimed_person_beside_the_account(client, audit):
    account = "system:serviceaccount:garden:operator"
    for reason, claimed in (("works", "alice"), (None, None)):
        audit.note(attempt(caller=account, reason=reason, claimed=claimed))
    html = page_of(client, "/audit")
    assert account in html
    assert re.findall(r'data-label="Claimed">(.*?)</td>', html) == ["", "<bdi>alice</bdi>"]
    assert html.count('data-label="Reason"></td>') == 1, "a phone shows no label without a value"


def test_the_configuration_is_in_the_words_of_its_files(client, process):
    process.loops = (Loop.PROBER, Loop.WEEDER)
    process.configured.weeder = WeederPolicy({"kube-apiserver": ()})
    html = page_of(client, "/config")
    assert re.search(r"weedBarePods</th><td>.*false", html)
    assert "False" not in html


def test_a_process_whose_peer_has_a_url_links_to_the_other_page(client, process):
    process.peer_url = "https://weeder.example:8080"
    assert 'href="https://weeder.example:8080/weeders"' in page_of(client, "/weeders")
    process.peer_url = "javascript:alert(1)"
    assert 'href="javascript' not in page_of(client, "/weeders")


def test_what_is_off_only_for_a_standby_needs_no_attention_where_one_leads(process, shoots):
    process.off["leader-address"] = "--advertise-address is not given"
    for leading in (True, False):
        process.leading = leading
        with TestClient(application(context(shoots, process))) as client:
            assert ("needs attention" in page_of(client)) is not leading


def test_a_problem_that_passes_has_its_page_asked_for_again_and_a_way_elsewhere(client, process):
    process.leading = False
    html = page_of(client, "/operations", status=503)
    assert 'data-again="5"' in html
    assert 'href="/config"' in html
    assert "data-again" not in page_of(client, "/?state=Fine", status=422)


def test_a_row_has_word_and_shape_the_limit_and_what_comes_back(client, shoots):
    shoots.add(protected())
    html = page_of(client)
    row = html[html.index('<tr id="shoot-') :]
    text = words_of(row)
    for expected in ("■ Protected", "63 /100 expired, limit 60 %", "kcm 0 of 1 saved"):
        assert expected in text
    assert "mcm 0 of 3 saved" in text
    assert 'class="fill" width="63.0"' in row
    assert 'class="limit" d="M60.0 0V8"' in row
    assert 'href="/?state=Protected"' in html, "each number is a filter"
    assert f'href="/shoots/{NAMESPACE}"' in row, "it leads to the shoot"


def test_a_row_is_made_anew_when_what_it_shows_has_changed(client, shoots, overrides):
    shoots.add(healthy())
    assert "maintenance" not in page_of(client)
    overrides.add(pause(reason="maintenance", author="eve"))
    assert "maintenance" in page_of(client)
    shoots.add(protected())
    html = page_of(client)
    assert 'data-state="Protected"' in html
    assert "63 of 100" in html


def test_the_rows_that_were_asked_for_come_with_what_stands_above(client, shoots):
    shoots.add(healthy("shoot--a--fine"), protected("shoot--b--cut"))
    html = page_of(client, "/rows?namespace=shoot--b--cut&namespace=shoot--z--gone")
    assert rows_of(html) == ["shoot--b--cut"]
    assert 'id="overview"' in html


def test_a_node_has_the_age_of_its_lease_and_the_error_of_its_clock(client, shoots):
    leases = (judgement("node-0", renewed=NOW - 7, offset=3600.0), judgement("node-1"))
    shoots.add(replace(protected(), judgements=leases))
    html = page_of(client, f"/shoots/{NAMESPACE}")
    assert 'title="node-0: fresh, 7 s old, its clock is off by 3600.0 s"' in html


def test_the_history_can_be_had_of_one_kind(client, shoots):
    shoots.add(healthy())
    for kind in (NoticeKind.SCALE, NoticeKind.OVERRIDE):
        shoots.past.note(OF_KIND[kind](NAMESPACE, NOW, "Reason", f"about {kind}"))
    html = page_of(client, f"/shoots/{NAMESPACE}?kind=Scale")
    _, _, history = html.partition('id="history"')
    assert "about Scale" in history
    assert "about Override" not in history


def test_text_of_others_stays_text(client, shoots, overrides):
    shoots.add(replace(protected(), message=HOSTILE, reason=HOSTILE))
    shoots.past.note(ScalingNotice(NAMESPACE, NOW, HOSTILE, HOSTILE * 200))
    overrides.add(
        pause(reason=HOSTILE, author=HOSTILE),
        pause(name="kubectl", reason=HOSTILE, author=HOSTILE),
        request(operation=HOSTILE, reason=HOSTILE, author=HOSTILE),
    )
    for path in PAGES:
        assert "<script>alert" not in page_of(client, path)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page_of(client)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/shoots/shoot--no--such", "the seed has no Cluster shoot--no--such"),
        ("/shoots/..%3Cb%3E", "the seed has no Cluster"),
        ("/shoot/shoot--no--such", "there is nothing at this path"),
    ],
)
def test_what_is_not_there_is_a_page_that_says_so(client, path, said):
    html = page_of(client, path, status=404)
    assert said in html
    assert 'href="/"' in html


def test_programs_get_problems_as_ever(client):
    for accept in ("*/*", "application/json", "application/problem+json, text/html"):
        answer = client.get("/shoots/shoot--no--such", headers={"Accept": accept})
        assert answer.headers["content-type"] == "application/problem+json"
    answer = client.get("/api/v1/shoots/shoot--no--such", headers=HTML)
    assert answer.headers["content-type"] == "application/problem+json"


def test_where_nobody_leads_each_page_says_so(client, process):
    process.leading = False
    process.leader_identity = None
    text = words_of(page_of(client))
    assert "The leader is unknown." in text
    assert "no known leader of prober" in text
    for path in ("/operations", f"/shoots/{NAMESPACE}"):
        html = page_of(client, path, status=503)
        assert 'data-again="5"' in html
        assert "this instance is on standby; the leader is unknown" in html


def test_only_what_the_caller_may_do_is_offered(shoots):
    shoots.add(healthy())
    given = context(shoots, authority=ByRole(DecisionCounter(Metrics())))
    offered = {}
    for role in Role:
        with TestClient(application(given, caller=Caller("x", role))) as client:
            html = page_of(client, f"/shoots/{NAMESPACE}")
            offered[role] = set(re.findall(r'data-key="action-([a-z-]+)"', html))
    assert offered[Role.VIEWER] == set()
    assert offered[Role.OPERATOR] == {"pause", "probe", "ignore"}
    assert offered[Role.ADMIN] == {"pause", "probe", "ignore", "scale-down", "scale-up"}


def test_a_browser_without_a_token_is_told_how_to_come_in(given):
    metrics = Metrics()

    def authentication(app: ASGIApp) -> ASGIApp:
        authenticator = SeedAuthenticator(ReviewService(None, Clock.system(), metrics))
        return Authentication(app, authenticator=authenticator, decisions=DecisionCounter(metrics))

    app = application(given, now=lambda: NOW, metrics=metrics, authentication=authentication)
    with TestClient(app) as client:
        for path in PAGES:
            answer = client.get(path, headers=HTML)
            assert answer.status_code in {401, 503}
            assert answer.headers["content-type"].startswith("text/html")
            for url in re.findall(r'"(/static/[^"]+)"', answer.text):
                assert client.get(url).status_code == 200
        answer = client.get("/api/v1/shoots", headers=HTML)
        assert answer.headers["content-type"] == "application/problem+json"


def test_a_page_that_says_401_names_the_way_in():
    problem = {"title": "Nobody", "detail": "<b>", "status": 401, "type": "urn:x"}
    text = bytes(site.page("problem.html", problem=problem, path="/").body).decode()
    assert "dwd page --port-forward NAMESPACE/DEPLOYMENT" in text
    assert "&lt;b&gt;" in text


def test_the_words_of_durations():
    assert [site.ago(each) for each in (-5, 0, 59.9, 60, 3_599, 3_600, 86_399, 90_000)] == [
        "0s",
        "0s",
        "59s",
        "1m",
        "59m",
        "1h 0m",
        "23h 59m",
        "1d 1h",
    ]


def test_more_pauses_than_a_page_shows_are_counted(client, shoots, overrides):
    shoots.add(healthy())
    overrides.add(*(pause(name=f"p-{n:03}", seconds=600 + n) for n in range(70)))
    html = page_of(client, f"/shoots/{NAMESPACE}")
    assert html.count('class="override"') == 51
    assert "20 more pauses, which hold back no more." in html
    assert "pauses/p-020" in html
    assert "pauses/p-019" not in html


def test_what_replaces_a_pause_is_offered_to_those_who_may(shoots, overrides, authority):
    shoots.add(healthy())
    authority.forbidden.add(Call.CHANGE_PAUSE)
    given = context(shoots, overrides=overrides, authority=authority)
    with TestClient(application(given)) as client:
        assert 'data-key="action-pause"' in page_of(client, f"/shoots/{NAMESPACE}")
        overrides.add(pause())
        assert 'data-key="action-pause"' not in page_of(client, f"/shoots/{NAMESPACE}")
