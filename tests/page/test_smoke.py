"""The few tests of the page in a browser that are quick enough for `make test`; skipped without a Chromium."""

import re

from tests.page.facts import NAMES

EVENTS = "503"
"""The application on hand-made facts streams no events, which Chromium writes to the console."""


def test_the_list_shows_the_worst_first_and_filters_by_a_click(site, tabs):
    tabs.expected.append(EVENTS)
    page = tabs.open(site)
    page.locator("html.scripted").wait_for(state="attached")
    rows = page.locator("#shoots tbody tr:visible")
    assert rows.first.get_attribute("data-state") == "Protected"
    page.locator("a.count", has_text="Healthy").click()
    assert [each.get_attribute("data-name") for each in rows.all()] == [NAMES[0]]
    assert page.url.endswith("?state=Healthy")


def test_a_pause_is_planned_done_and_shown(site, tabs):
    tabs.expected.append(EVENTS)
    page = tabs.open(f"{site}/shoots/{NAMES[0]}")
    page.locator("details.action > summary", has_text="Pause").click()
    form = page.locator("details.action[open] form")
    form.locator("[name=reason]").fill("the load balancer is replaced")
    form.locator("button[type=submit]").click()
    form.locator(".outcome", has_text="Nothing has been written yet.").wait_for()
    form.locator(".outcome button.go").click()
    form.locator(".outcome .done", has_text="Paused until").wait_for()
    page.locator("#why", has_text=re.compile("paused.*the load balancer is replaced")).wait_for()


def test_on_a_phone_in_the_dark_nothing_overflows(site, tabs):
    tabs.expected.append(EVENTS)
    how = {"viewport": {"width": 360, "height": 740}, "color_scheme": "dark"}
    page = tabs.open(f"{site}/shoots/{NAMES[1]}", **how)
    assert page.evaluate("document.documentElement.scrollWidth <= document.body.offsetWidth")
