"""The page in a browser on hand-made facts: what no demo shows."""

from dataclasses import replace

import pytest

from app.core.model.overrides import Hold, OverrideEntry, Pause, Scope
from app.core.model.probing import Exclusion, LeaseState
from app.core.reporting.notices import Notice, NoticeKind
from tests.api.facts import NOW, candidacy, healthy, judgement, not_probed, protected
from tests.api.fakes import FakeOverrides, FakeProcess, FakeShoots, application, context
from tests.page.conftest import served

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\u202eesrever\u2066 "
LONG = "x" * 10_000
NAMES = ["shoot--a--fine", "shoot--b--cut", "shoot--c--hostile", "shoot--d--off"]
PAGES = ["/", "/shoots/shoot--b--cut", "/operations", "/weeders", "/audit", "/config", "/shoots/x"]
NO_STREAM = "503|404"
"""These applications stream no events, and one of the pages is of no shoot."""


def facts():
    shoots = FakeShoots()
    nodes = {"node-0": None, HOSTILE: None, "node-2": Exclusion.NOT_MANAGED, LONG[:253]: None}
    leases = (
        judgement("node-0"),
        judgement(HOSTILE, LeaseState.EXPIRED, NOW - 60, offset=3600.0),
        judgement("node-2", LeaseState.UNKNOWN, None),
    )
    hostile = replace(
        protected(NAMES[2]),
        message=HOSTILE + LONG,
        reason=HOSTILE,
        candidacy=candidacy(**nodes),
        judgements=leases,
    )
    shoots.add(healthy(NAMES[0]), protected(NAMES[1]), hostile, not_probed(NAMES[3]))
    for name in NAMES:
        shoots.past.note(Notice(NoticeKind.SCALE, name, NOW - 5, HOSTILE, HOSTILE + LONG))
    overrides = FakeOverrides()
    overrides.entries[NAMES[2]] = OverrideEntry(
        Pause(Scope.ALL, HOSTILE + LONG, HOSTILE, NOW, NOW + 900),
        Hold(HOSTILE, LONG, NOW, NOW + 900, operation=HOSTILE),
    )
    return context(shoots, FakeProcess(), overrides=overrides)


@pytest.fixture(scope="module")
def site():
    with served(application(facts())) as url:
        yield url


def opened(tabs, url, **how):
    tabs.expected.append(NO_STREAM)
    return tabs.open(url, **how)


@pytest.mark.parametrize("path", [*PAGES, f"/shoots/{NAMES[2]}"])
@pytest.mark.parametrize("width", [360, 1280])
def test_hostile_text_is_shown_and_does_nothing(site, tabs, path, width):
    page = opened(tabs, site + path, viewport={"width": width, "height": 800})
    page.wait_for_timeout(300)
    assert "owned" not in page.title()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("main script, main img").count() == 0


@pytest.mark.parametrize("width", [1280, 1360, 1600])
def test_why_a_condition_is_so_is_read_without_scrolling_sideways(site, tabs, width):
    page = opened(tabs, f"{site}/shoots/{NAMES[2]}", viewport={"width": width, "height": 800})
    box = page.locator("#conditions .scroll")
    assert box.evaluate("box => box.scrollWidth <= box.clientWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", [*PAGES, f"/shoots/{NAMES[2]}"])
def test_axe_finds_nothing_serious(site, tabs, axe, path, scheme):
    page = opened(tabs, site + path, color_scheme=scheme, reduced_motion="reduce")
    for each in page.locator("details.action > summary").all()[:1]:
        each.click()
    page.wait_for_timeout(200)
    page.evaluate(axe)
    found = page.evaluate("axe.run(document)")
    serious = [
        (each["id"], each["help"], [node["html"][:200] for node in each["nodes"][:3]])
        for each in found["violations"]
        if each["impact"] in {"serious", "critical"}
    ]
    assert serious == []


def shown(page):
    return [each.get_attribute("data-name") for each in page.locator("tbody tr:visible").all()]


def test_search_and_filters_live_in_the_url(site, tabs):
    page = opened(tabs, site)
    page.keyboard.press("/")
    page.keyboard.type("cut")
    assert shown(page) == [NAMES[1]]
    assert page.url.endswith("/?q=cut")
    page.keyboard.press("Escape")
    assert len(shown(page)) == 4
    page.locator("a.count", has_text="Healthy").click()
    assert shown(page) == [NAMES[0]]
    assert page.locator("#found").inner_text() == "1 of 4 shoots"
    page.reload()
    page.locator("html.scripted").wait_for()
    assert shown(page) == [NAMES[0]]
    page.keyboard.press("Escape")
    page.locator(f"tr[data-name='{NAMES[1]}']").wait_for()
    assert page.url.endswith("/")
    page.locator("#search select").select_option("name")
    assert shown(page) == sorted(NAMES)


def test_keys_go_through_the_rows_and_open_one(site, tabs):
    page = opened(tabs, site)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    first = page.evaluate("document.activeElement.textContent")
    assert first == shown(page)[0]
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/shoots/{first}")
    page.keyboard.press("Escape")
    page.wait_for_url(f"{site}/")
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#help").is_visible()


def test_the_clock_of_the_browser_may_be_wrong(site, tabs):
    page = opened(tabs, f"{site}/shoots/{NAMES[1]}")
    before = page.locator("#why time").first.inner_text()
    assert before == "1m"  # by the server's clock, which is months ahead of this one
    page.wait_for_timeout(1500)
    assert page.locator("#why time").first.inner_text() == "1m"


def test_a_shoot_that_vanishes_while_its_page_is_open_leaves_what_was_known(tabs):
    shoots = FakeShoots()
    shoots.add(protected(NAMES[1]))
    with served(application(context(shoots))) as url:
        page = opened(tabs, f"{url}/shoots/{NAMES[1]}")
        shoots.known.clear()
        page.locator("#live", has_text=f"the seed has no Cluster {NAMES[1]}").wait_for()
        assert "63 of 100" in page.locator("#why").inner_text()
        page.close()


def test_a_form_without_an_answer_says_that_nobody_knows(site, tabs):
    page = opened(tabs, f"{site}/shoots/{NAMES[1]}")
    tabs.expected.append("ERR_FAILED")
    page.route("**/api/v1/shoots/*/probe", lambda route: route.abort())
    page.locator("details.action > summary", has_text="Probe now").click()
    page.locator("details.action[open] button[type=submit]").click()
    page.locator(".outcome button.go").click()
    page.locator(
        ".outcome .refused", has_text="it is unknown whether the change was made"
    ).wait_for()


@pytest.mark.parametrize(
    ("status", "problem", "said"),
    [
        (401, "unauthenticated", "The caller is not authenticated: the token has expired"),
        (403, "forbidden", "The caller is not authenticated: the token has expired"),
        (429, "too-many-requests", "Wait 7 s before you retry."),
    ],
)
def test_a_refusal_is_said_in_the_words_of_the_problem(site, tabs, status, problem, said):
    page = opened(tabs, f"{site}/shoots/{NAMES[1]}")
    tabs.expected.append(str(status))
    body = {
        "type": f"urn:dependency-watchdog:problem:{problem}",
        "title": "The caller is not authenticated",
        "detail": "the token has expired",
        "status": status,
    }
    headers = {"Retry-After": "7"} if status == 429 else {}
    page.route(
        "**/api/v1/shoots/*/scale",
        lambda route: route.fulfill(status=status, json=body, headers=headers),
    )
    page.locator("details.action > summary", has_text="Scale up").click()
    page.locator("details.action[open] [name=reason]").fill("x")
    page.locator("details.action[open] button[type=submit]").click()
    page.locator(".outcome .refused", has_text=said).wait_for()
    assert page.locator("details.action[open] button[type=submit]").is_disabled() == (status == 429)


def test_where_no_events_come_the_page_says_why_in_the_words_of_the_server(site, tabs):
    page = opened(tabs, site)
    page.locator("#live", has_text="disconnected for").wait_for()


def test_a_standby_says_so_and_has_nothing_that_spins(tabs):
    given = context(FakeShoots(), FakeProcess(leading=False))
    with served(application(given)) as url:
        page = opened(tabs, url)
        assert "This instance is on standby" in page.locator("h1").inner_text()
        page.locator("#live", has_text="is on standby; dwd-7f9 leads").wait_for()
        page.close()


def test_a_page_can_be_printed(site, tabs):
    page = opened(tabs, f"{site}/shoots/{NAMES[1]}")
    page.emulate_media(media="print")
    assert page.locator("#why .sentence").is_visible()
    assert not page.locator("nav").is_visible()
