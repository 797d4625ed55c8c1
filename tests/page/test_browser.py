"""The page in a browser on hand-made facts: what no demo shows."""

import re
from contextlib import ExitStack
from dataclasses import replace

import pytest

from tests.api.facts import POLICY, healthy, protected
from tests.api.fakes import FakeProcess, FakeShoots, application, context
from tests.api.serving import served
from tests.page.facts import HOSTILE, LONG, NAMES, facts

PAGES = ["/", "/shoots/shoot--b--cut", "/operations", "/weeders", "/audit", "/config", "/shoots/x"]
QUERIES = ["/?q=%3Cscript%3Ealert(1)%3C/script%3E", "/operations?namespace=%22%3E%3Cimg%20src=x%3E"]
NO_STREAM = "503|404"
"""These applications stream no events, and one of the pages is of no shoot."""
FITS = "document.documentElement.scrollWidth <= document.body.offsetWidth"
"""Whether nothing is wider than the page. The width of the body: that of the root includes the scroll bar's."""


@pytest.fixture
def serve():
    """Serves applications on what a test gives, until it has closed its tabs."""
    with ExitStack() as serving:
        yield lambda given: serving.enter_context(served(application(given)))


def opened(tabs, url, **how):
    tabs.expected.append(NO_STREAM)
    return tabs.open(url, **how)


@pytest.mark.parametrize("path", [*PAGES, *QUERIES, f"/shoots/{NAMES[2]}", "/docs"])
@pytest.mark.parametrize("width", [360, 600, 1280])
def test_hostile_text_is_shown_and_does_nothing(site, tabs, path, width):
    page = opened(tabs, site + path, viewport={"width": width, "height": 800})
    page.wait_for_timeout(300)
    assert "owned" not in page.title()
    assert page.evaluate(FITS)
    assert page.locator("main script:not([src]), main img").count() == 0


def test_hostile_text_that_comes_with_an_update_does_nothing_either(serve, tabs):
    shoots = FakeShoots()
    shoots.add(healthy(NAMES[0]))
    page = opened(tabs, serve(context(shoots)))
    page.locator("html.scripted").wait_for()
    shoots.add(replace(protected(NAMES[0]), message=HOSTILE + LONG))
    look_again(page)
    page.locator("tr[data-state=Protected]", has_text="esrever").wait_for()
    assert page.locator("main img, main script:not([src])").count() == 0
    assert "owned" not in page.title()


@pytest.mark.parametrize("width", [600, 700, 1280])
def test_the_numbers_of_the_states_fit_their_boxes(site, tabs, width):
    page = opened(tabs, site, viewport={"width": width, "height": 800})
    list_ = page.locator(".counts").bounding_box()
    for each in page.locator(".count").all():
        box = each.bounding_box()
        assert box["x"] + box["width"] <= list_["x"] + list_["width"] + 1


def test_on_a_phone_a_table_is_read_whole_without_scrolling_sideways(site, tabs):
    page = opened(tabs, f"{site}/shoots/{NAMES[1]}", viewport={"width": 360, "height": 740})
    for table in ("#dependents", "#conditions", "#history"):
        box = page.locator(f"{table} .scroll")
        assert box.evaluate("box => box.scrollWidth <= box.clientWidth"), table
    assert page.locator("#dependents .soft", has_text="of 1 saved").first.is_visible()
    page.goto(f"{site}/shoots/{NAMES[1]}")
    page.evaluate("scrollTo(0, 2000)")
    assert page.locator("#live").is_visible()
    assert page.locator("#live").bounding_box()["y"] < 740


@pytest.mark.parametrize(
    "path", ["/operations", "/weeders", "/audit", "/config", f"/shoots/{NAMES[1]}"]
)
def test_on_a_phone_each_table_is_read_whole_and_no_label_is_without_a_value(site, tabs, path):
    page = opened(tabs, site + path, viewport={"width": 360, "height": 740})
    page.evaluate(
        "for (const each of document.querySelectorAll('main details:not(.action)')) each.open = true"
    )
    for box in page.locator("main .scroll").all():
        assert box.evaluate("box => box.scrollWidth <= box.clientWidth"), box.inner_text()[:80]
    for cell in page.locator(".stack td[data-label]:visible").all():
        assert cell.inner_text().strip(), cell.get_attribute("data-label")
    for name in page.locator(".pairs td, .stack caption").all():
        assert name.evaluate("each => each.offsetWidth") > 60, "not a column of single letters"


@pytest.mark.parametrize("path", ["/", f"/shoots/{NAMES[1]}"])
def test_a_wall_screen_is_filled(site, tabs, path):
    page = opened(tabs, site + path, viewport={"width": 3840, "height": 2160})
    assert page.evaluate(FITS)
    right = "each => each.getBoundingClientRect().right"
    last = page.locator("#shoots" if path == "/" else "#history").evaluate(right)
    assert last > 3700


@pytest.mark.parametrize("width", [1280, 1360, 1600])
def test_why_a_condition_is_so_is_read_without_scrolling_sideways(site, tabs, width):
    page = opened(tabs, f"{site}/shoots/{NAMES[2]}", viewport={"width": width, "height": 800})
    box = page.locator("#conditions .scroll")
    assert box.evaluate("box => box.scrollWidth <= box.clientWidth")


def check_with_axe(page, axe):
    page.evaluate(axe)
    found = page.evaluate("axe.run(document)")
    serious = [
        (each["id"], each["help"], [node["html"][:200] for node in each["nodes"][:3]])
        for each in found["violations"]
        if each["impact"] in {"serious", "critical"}
    ]
    assert serious == []


each_scheme = pytest.mark.parametrize("scheme", ["light", "dark"])


@each_scheme
@pytest.mark.parametrize("path", [*PAGES, f"/shoots/{NAMES[2]}", "/docs"])
def test_axe_finds_nothing_serious(site, tabs, axe, path, scheme):
    page = opened(tabs, site + path, color_scheme=scheme, reduced_motion="reduce")
    for each in page.locator("details.action > summary").all()[:1]:
        each.click()
    page.wait_for_timeout(200)
    check_with_axe(page, axe)


@each_scheme
def test_axe_finds_nothing_serious_in_a_plan_and_what_comes_of_it(serve, tabs, axe, scheme):
    url = serve(facts())
    page = opened(tabs, f"{url}/shoots/{NAMES[0]}", color_scheme=scheme, reduced_motion="reduce")
    plan_and_do(page, axe)


def plan_and_do(page, axe):
    page.locator("details.action > summary", has_text="Pause").click()
    form = page.locator("details.action[open] form")
    form.locator("[name=reason]").fill("x")
    form.locator("button[type=submit]").click()
    form.locator(".outcome button.go").wait_for()
    check_with_axe(page, axe)
    form.locator(".outcome button.go").click()
    form.locator(".outcome .done").wait_for()
    check_with_axe(page, axe)


@each_scheme
def test_axe_finds_nothing_serious_on_a_standby(serve, tabs, axe, scheme):
    url = serve(context(FakeShoots(), FakeProcess(leading=False)))
    for path in ("/", "/operations"):
        page = opened(tabs, url + path, color_scheme=scheme, reduced_motion="reduce")
        check_with_axe(page, axe)


@each_scheme
def test_axe_finds_nothing_serious_in_endpoint_mode(serve, tabs, axe, scheme):
    url = serve(facts(policy=replace(POLICY, external_secret="external")))
    for path in ("/", f"/shoots/{NAMES[1]}"):
        page = opened(tabs, url + path, color_scheme=scheme, reduced_motion="reduce")
        assert page.locator("#nodes, .c-leases").count() == 0
        assert "expired leases" not in page.locator("main").inner_text().lower()
        check_with_axe(page, axe)


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
    page.locator("a.count", has_text="Healthy").click()
    page.locator("#shoots th a", has_text=NAMES[0]).click()
    page.wait_for_url(f"**/shoots/{NAMES[0]}")
    page.keyboard.press("Escape")
    page.wait_for_url(f"{site}/?state=Healthy")  # the filter is still there
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


def test_a_time_of_another_day_has_its_date(serve, tabs):
    shoots = FakeShoots()
    message = "paused by x from 2027-01-15T23:59:59Z until 2027-01-16T00:00:00Z"
    shoots.add(replace(healthy(NAMES[0]), message=message))
    page = opened(tabs, serve(context(shoots)))
    shown = "paused by x from 23:59:59 UTC until 2027-01-16 00:00:00 UTC"
    page.locator(f"tr[data-name='{NAMES[0]}']", has_text=shown).wait_for()


def test_a_shoot_that_vanishes_while_its_page_is_open_leaves_what_was_known(serve, tabs):
    shoots = FakeShoots()
    shoots.add(protected(NAMES[1]))
    url = serve(context(shoots))
    page = opened(tabs, f"{url}/shoots/{NAMES[1]}")
    shoots.known.clear()
    page.locator("#live", has_text=f"the seed has no Cluster {NAMES[1]}").wait_for()
    assert "63 of 100" in page.locator("#why").inner_text()


def test_only_a_change_of_state_is_announced(serve, tabs):
    shoots = FakeShoots()
    shoots.add(healthy(NAMES[0]))
    page = opened(tabs, serve(context(shoots)))
    page.locator("html.scripted").wait_for()
    row = page.locator(f"tr[data-name='{NAMES[0]}']")
    shoots.add(replace(healthy(NAMES[0]), message="1 of 3 node leases is older than 30 s"))
    look_again(page)
    row.get_by_text("1 of 3 node leases").wait_for()
    assert page.locator("#announce").inner_text() == ""
    shoots.add(protected(NAMES[0]))
    look_again(page)
    row.get_by_text("63 of 100").wait_for()
    assert page.locator("#announce").inner_text() == f"{NAMES[0]} is Protected"


def look_again(page):
    """Without a stream a page asks again when a form is closed."""
    page.evaluate("document.querySelector('#on-all details').open = true")
    page.evaluate("document.querySelector('#on-all details').open = false")


def test_a_node_is_described_below_the_cells_by_a_tap_and_by_keys(site, tabs):
    page = opened(tabs, f"{site}/shoots/{NAMES[1]}")
    cells, line = page.locator(".cells").nth(1), page.locator(".node-line").nth(1)
    cells.locator(".cell").last.click()
    first = line.inner_text()
    assert ": " in first
    cells.focus()
    page.keyboard.press("ArrowLeft")
    assert line.inner_text() != first
    page.locator(".cells").first.locator(".cell").click()
    page.locator(".node-line", has_text="does not count: not read yet").wait_for()


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
    ("status", "said"),
    [
        (401, "No: the token has expired"),
        (403, "No: the token has expired"),
        (429, "Wait 7 s before you retry."),
    ],
)
def test_a_refusal_is_said_in_the_words_of_the_problem(site, tabs, status, said):
    page = opened(tabs, f"{site}/shoots/{NAMES[1]}")
    tabs.expected.append(str(status))
    later = {"Retry-After": "7"} if status == 429 else {}
    refused = problem(status, "the token has expired", **later)
    page.route("**/api/v1/shoots/*/scale", lambda route: route.fulfill(**refused))
    page.locator("details.action > summary", has_text="Scale up").click()
    page.locator("details.action[open] [name=reason]").fill("x")
    page.locator("details.action[open] button[type=submit]").click()
    page.locator(".outcome .refused", has_text=said).wait_for()
    assert page.locator("details.action[open] button[type=submit]").is_disabled() == (status == 429)


def test_what_was_planned_is_what_its_commands_do(site, tabs):
    page = opened(tabs, f"{site}/shoots/{NAMES[0]}")
    page.locator("details.action > summary", has_text="Scale down").click()
    form = page.locator("details.action[open] form")
    form.locator("[name=reason]").fill("to see it")
    form.locator(".lines summary").click()
    dwd, curl = (form.locator(f"[data-line={each}]") for each in ("dwd", "curl"))
    assert "--if-match" not in dwd.inner_text()
    form.locator("button[type=submit]").click()
    form.locator(".outcome button.go").wait_for()
    assert """ --if-match '"all"'""" in dwd.inner_text()
    assert """ -H 'If-Match: "all"'""" in curl.inner_text()


def test_where_no_events_come_the_page_says_why_in_the_words_of_the_server(site, tabs):
    opened(tabs, site).locator("#live", has_text="disconnected for").wait_for()


def test_a_standby_says_so_and_has_nothing_that_spins(serve, tabs):
    page = opened(tabs, serve(context(FakeShoots(), FakeProcess(leading=False))))
    assert "This instance is on standby" in page.locator("h1").inner_text()
    page.locator("#live[data-tone=calm]", has_text="on standby, refreshed every 5 s").wait_for()
    assert "disconnected" not in page.locator("#live").inner_text()
    assert "dwd-7f9" in page.locator("#overview").inner_text()


def test_a_standby_that_leads_shows_the_shoots_without_being_asked(serve, tabs):
    shoots, process = FakeShoots(), FakeProcess(leading=False)
    shoots.add(healthy(NAMES[0]))
    page = opened(tabs, serve(context(shoots, process)))
    page.locator("#live[data-tone=calm]").wait_for()
    process.leading = True
    page.locator("#shoots tr", has_text=NAMES[0]).wait_for()


def test_another_page_of_a_standby_goes_on_by_itself(serve, tabs):
    process = FakeProcess(leading=False)
    url = serve(context(FakeShoots(), process))
    page = opened(tabs, f"{url}/operations")
    assert page.locator("nav a", has_text="Config").is_visible()
    process.leading = True
    page.locator("#operations").wait_for()


def told(page, *answers):
    """The stream of events answers with these, one after the other; the last one for ever after."""
    left, asked = list(answers), []

    def answer(route):
        asked.append(route.request.url)
        route.fulfill(**(left.pop(0) if len(left) > 1 else left[0]))

    page.route("**/api/v1/events*", answer)
    return asked


def problem(status, detail, **headers):
    body = {"title": "No", "detail": detail, "status": status, "type": "urn:x"}
    return {"status": status, "json": body, "headers": headers}


def test_a_token_that_ends_is_said_once_and_nothing_is_asked_any_more(site, tabs):
    tabs.expected.append("401")
    page = opened(tabs, f"{site}/shoots/{NAMES[1]}")
    asked = told(page, problem(401, "the token has expired"))
    page.reload()
    page.locator("#live[data-tone=bad]", has_text="the token has expired. Sign in again").wait_for()
    page.wait_for_timeout(1500)
    assert len(asked) == 1


def test_where_there_are_too_many_streams_the_page_asks_when_it_may(site, tabs):
    tabs.expected.append("429")
    page = opened(tabs, site)
    rows = []
    page.on("request", lambda each: rows.append(each.url) if "/rows?since=" in each.url else None)
    asked = told(page, problem(429, "ten streams are enough", **{"Retry-After": "2"}))
    page.reload()
    page.locator("#live[data-tone=warn]", has_text="refreshed every 2 s").wait_for()
    page.wait_for_timeout(3000)
    assert 2 <= len(asked) <= 3
    assert rows


def test_who_may_not_follow_the_events_is_told_and_sees_the_rows_that_change(site, tabs):
    tabs.expected.append("403")
    page = opened(tabs, site)
    asked = told(page, problem(403, "eve may not get events"))
    page.reload()
    words = "refreshed every 30 s: eve may not get events"
    page.locator("#live[data-tone=warn]", has_text=words).wait_for()
    page.wait_for_timeout(1500)
    assert len(asked) == 1


ENDLESS = """
    const real = window.fetch;
    window.fetch = (url, options) =>
      String(url).includes("/api/v1/events")
        ? Promise.resolve(new Response(new ReadableStream({})))
        : real(url, options);
"""
"""A stream that stays open, and says nothing."""


@pytest.mark.parametrize("status", [429, 500])
def test_what_failed_once_while_the_stream_goes_on_is_forgotten_when_it_is_there(
    site, tabs, status
):
    tabs.expected.append(str(status))
    page = tabs.open("about:blank")
    page.add_init_script(ENDLESS)
    answers = [problem(status, "not now", **{"Retry-After": "3"})]
    page.goto(site)
    page.locator("#live[data-tone=good]").wait_for()
    page.route(
        "**/", lambda route: route.fulfill(**answers.pop()) if answers else route.continue_()
    )
    look_again(page)
    page.locator("#live[data-tone=bad]", has_text="trying again: not now").wait_for()
    page.locator("#live[data-tone=good]", has_text="live").wait_for()


def test_after_a_break_the_stream_is_resumed_where_it_was(site, tabs):
    page = opened(tabs, site)
    told(page, {"content_type": "text/event-stream", "body": "id: p-7\n\n"})
    with page.expect_request(lambda each: each.headers.get("last-event-id") == "p-7"):
        page.reload()


def test_two_versions_behind_one_address_do_not_make_it_reload_for_ever(site, tabs):
    page = opened(tabs, f"{site}/shoots/{NAMES[1]}")
    loads = []
    page.on("load", lambda _: loads.append(1))

    def other(route):
        found = route.fetch()
        route.fulfill(response=found, body=found.text().replace('version="1.2.3"', 'version="9"'))

    page.route(
        f"**/shoots/{NAMES[1]}",
        lambda r: r.continue_() if r.request.is_navigation_request() else other(r),
    )
    page.locator("#live", has_text="this page is of version 1.2.3, the server's is 9").wait_for(
        timeout=30_000
    )
    page.wait_for_timeout(1000)
    assert len(loads) <= 1


def test_a_hundred_events_a_second_are_a_request_a_second(serve, tabs):
    shoots = FakeShoots()
    shoots.add(*(healthy(f"shoot--x--{each:03}") for each in range(100)))
    url = serve(context(shoots))
    page = tabs.open("about:blank")
    tabs.expected.append(NO_STREAM)
    events = "".join(
        f'id: {n}\nevent: shoot\ndata: {{"namespace":"shoot--x--{n % 100:03}"}}\n\n'
        for n in range(1000)
    )
    told(page, {"status": 200, "content_type": "text/event-stream", "body": events})
    rows = []
    page.on("request", lambda each: rows.append(each.url) if "/rows?" in each.url else None)
    page.goto(url)
    page.wait_for_timeout(4000)
    assert 1 <= len(rows) <= 5
    page.keyboard.press("/")
    page.keyboard.type("099")
    page.locator("#found", has_text="1 of 100 shoots").wait_for(timeout=2000)


def test_search_works_while_the_rows_still_come(site, tabs):
    page = tabs.open("about:blank")
    tabs.expected.append(NO_STREAM)
    page.goto(site)
    script = page.locator("#shoots script[src]")
    assert script.get_attribute("async") is not None
    assert (
        page.evaluate("document.querySelector('#shoots tbody').firstElementChild.localName")
        == "script"
    )


def test_with_reduced_motion_nothing_moves(site, tabs):
    for motion, moves in (("reduce", False), ("no-preference", True)):
        page = opened(tabs, site, reduced_motion=motion)
        row = page.locator("#shoots tbody tr").first
        row.evaluate("row => row.classList.add('changed')")
        name = row.evaluate("row => getComputedStyle(row).animationName")
        assert (name != "none") == moves


def test_a_page_can_be_printed(site, tabs):
    page = opened(tabs, f"{site}/shoots/{NAMES[1]}")
    page.emulate_media(media="print")
    assert page.locator("#why .sentence").is_visible()
    assert not page.locator("nav").is_visible()
    assert not page.locator("#live").is_visible()
    assert re.search(r"As of \d{4}-\d\d-\d\d", page.locator(".on-paper").inner_text())
    page.emulate_media(media=None)
    assert page.context.new_cdp_session(page).send("Page.printToPDF")["data"]
