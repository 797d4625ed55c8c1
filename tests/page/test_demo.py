"""The page against the demo: each action to its effect in the seed, the story watched, the stream cut and back.

In this order: the shoot `cut` loses its nodes a minute and a quarter after the start, `quiet` is for the actions.
"""

import re
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

QUIET = "shoot--demo--quiet"
CUT = "shoot--demo--cut"
SHOOT = f"/api/v1/shoots/{QUIET}"


def act(page, label, *, typed=None, target=None, wait_for=".outcome .done", **fields):
    """Opens an action, fills it in, has the plan shown, and does it; returns the plan and what came of it."""
    page.locator("details.action > summary", has_text=re.compile(f"^{label}")).click()
    form = page.locator("details.action[open] form")
    if target is not None:
        form.locator("select[name=target]").select_option(label=target)
    for name, value in fields.items():
        field = form.locator(f"[name={name}]")
        _ = field.select_option(value) if name == "scope" else field.fill(value)
    form.locator("button[type=submit]").click()
    plan = form.locator(".outcome table")
    plan.wait_for()
    said = plan.inner_text()
    if typed is not None:
        assert form.locator(".outcome button.go").is_disabled()
        form.locator("[name=typed]").fill(typed)
    form.locator(".outcome button.go").click()
    form.locator(wait_for).wait_for()
    return said, form.locator(".outcome").inner_text()


def close(page):
    page.locator("details.action[open] .outcome button", has_text="Close").click()
    page.locator("details.action[open]").wait_for(state="detached")


@pytest.fixture
def quiet(demo, tabs):
    page = tabs.open(f"{demo.url}/shoots/{QUIET}")
    page.locator("#live[data-tone=good]").wait_for()
    return page


def test_a_pause_is_planned_written_shown_and_taken_back(seed, quiet):
    plan, outcome = act(quiet, "Pause", reason="the load balancer is replaced", duration="30m")
    assert re.search(rf"Pause {QUIET}/api\s+nothing\s+paused \(all\) by anonymous until", plan)
    assert "Paused until" in outcome
    (written,) = seed.people("pauses", QUIET)
    assert written["reason"] == "the load balancer is replaced"
    # While this form is still open there is one to resume already.
    quiet.locator("details.action > summary", has_text="Resume").wait_for()
    close(quiet)
    quiet.locator("#why", has_text="the load balancer is replaced").wait_for()
    plan, _ = act(quiet, "Resume", reason="it is replaced")
    assert re.search(r"paused \(all\) by anonymous until .* nothing", " ".join(plan.split()))
    assert seed.people("pauses", QUIET) == []
    close(quiet)
    quiet.locator("#why", has_text="paused").wait_for(state="detached")


def test_a_double_click_sends_once(demo, quiet):
    before = demo.get(f"/api/v1/audit?namespace={QUIET}")["metadata"]["total"]
    quiet.locator("details.action > summary", has_text="Probe now").click()
    form = quiet.locator("details.action[open] form")
    form.locator("button[type=submit]").dblclick()
    form.locator(".outcome button.go").dblclick()
    form.locator(".outcome .done").wait_for()
    time.sleep(0.5)
    assert demo.get(f"/api/v1/audit?namespace={QUIET}")["metadata"]["total"] == before + 1


def test_ignore_scaling_is_set_and_taken_back(demo, seed, quiet):
    name = "Deployment/cluster-autoscaler"
    annotation = "dependency-watchdog.gardener.cloud/ignore-scaling"

    def ignored():
        return seed.annotations(QUIET, "cluster-autoscaler").get(annotation)

    plan, _ = act(quiet, "Ignore scaling of", target=name, reason="I look after it")
    assert '"true"' in plan
    assert ignored() == "true"
    close(quiet)
    quiet.locator("#dependents", has_text="scaling is ignored").wait_for()
    act(quiet, "Stop ignoring")
    assert ignored() is None


def test_a_shoot_is_scaled_down_by_typing_its_name_and_back_up(demo, seed, quiet):
    plan, _ = act(quiet, "Scale down", reason="to see it", typed=QUIET)
    assert re.search(r"Deployment/kube-controller-manager\s+write\s+1 → 0", plan)
    quiet.locator(".outcome .done", has_text="Scaling down: Done").wait_for()
    replicas = seed.replicas(QUIET)
    for name in ("kube-controller-manager", "machine-controller-manager", "cluster-autoscaler"):
        assert replicas[name] == 0
    assert [each["reason"] for each in seed.people("scalerequests", QUIET)] == ["to see it"]
    close(quiet)
    quiet.locator("#dependents b.zero").first.wait_for()
    plan, _ = act(quiet, "Scale up", reason="seen")
    assert "0 → 1" in plan
    quiet.locator(".outcome .done", has_text="Scaling up: Running").wait_for()
    close(quiet)
    quiet.locator("details.action > summary", has_text="Cancel scaling up").wait_for()
    plan, _ = act(quiet, "Cancel scaling up")
    assert re.search(r"operation \S+, scaling up\s+under way\s+cancelled", plan)
    assert re.search(r"cluster-autoscaler, level 2 of that run\s+not begun\s+cancelled", plan)
    close(quiet)
    act(quiet, "Scale up", reason="seen")
    demo.until(SHOOT, lambda s: any(r["replicas"]["spec"] == 1 for r in s["resources"]))
    close(quiet)
    for direction in ("up", "down"):
        assert demo.get(SHOOT)["hold"]["direction"] == direction, "the latest, then the earlier one"
        act(quiet, "End the hold")
        close(quiet)
        demo.until(SHOOT, lambda s, was=direction: (s["hold"] or {}).get("direction") != was)
    assert demo.get(SHOOT)["hold"] is None


def refused(page, label, **fields):
    page.locator("details.action > summary", has_text=re.compile(f"^{label}")).click()
    form = page.locator("details.action[open] form")
    for name, value in fields.items():
        form.locator(f"[name={name}]").fill(value)
    form.locator("button[type=submit]").click()
    form.locator(".outcome .refused").wait_for()
    return form.locator(".outcome").inner_text()


def test_what_the_server_does_not_take_is_said_in_its_words_before_anything_is_sent(quiet, tabs):
    tabs.expected.append("422")
    said = refused(quiet, "Pause", reason="x", duration="25h")
    assert "duration: must be more than 0s and at most 24h0m0s" in said
    assert "duration" in quiet.locator(".outcome .refused code").inner_text()
    assert quiet.locator(".outcome button.go").count() == 0


def test_what_is_said_is_the_same_as_a_command(demo, quiet):
    quiet.locator("details.action > summary", has_text="Pause").click()
    form = quiet.locator("details.action[open] form")
    form.locator("[name=reason]").fill("it's broken")
    form.locator("[name=scope]").select_option("scaleDown")
    form.locator(".lines summary").click()
    line = form.locator("[data-line=dwd]").inner_text()
    assert line.startswith(
        f"dwd pause {QUIET} --reason 'it'\\''s broken' --for 1h --scope scaleDown "
    )
    assert line.endswith(f"--server {demo.url}")
    assert '"scope":"scaleDown"' in form.locator("[data-line=curl]").inner_text()


def test_the_reason_of_a_call_without_a_body_is_in_its_commands_too(demo, quiet):
    quiet.locator("details.action > summary", has_text="Probe now").click()
    form = quiet.locator("details.action[open] form")
    form.locator("[name=reason]").fill("to see it")
    form.locator(".lines summary").click()
    dwd, curl = (form.locator(f"[data-line={each}]").inner_text() for each in ("dwd", "curl"))
    assert dwd.startswith(f"dwd probe {QUIET} --reason 'to see it' ")
    assert curl.endswith("/probe?reason=to+see+it'")


def test_all_shoots_are_paused_and_resumed_at_once(demo, tabs):
    page = tabs.open(demo.url)
    _, outcome = act(page, "Pause all shoots", reason="night shift", scope="scaleDown")
    assert "Paused until" in outcome
    close(page)
    page.locator("#overview", has_text="night shift").wait_for()
    assert demo.get("/api/v1/status")["pause"]["reason"] == "night shift"
    act(page, "Resume all shoots")
    assert demo.get("/api/v1/status")["pause"] is None


def test_weeding_is_asked_for_and_shown(demo, quiet, tabs):
    plan, _ = act(quiet, "Weed now", target="kube-apiserver", reason="to see it")
    assert f"recovery of {QUIET}/kube-apiserver" in plan
    quiet.locator(".outcome .done", has_text="left alone").wait_for()
    page = tabs.open(f"{demo.url}/weeders")
    page.locator("#services", has_text="Requested by anonymous: to see it").wait_for()
    act(page, "Weed now", reason="from the page of the weeder")
    page.locator(".outcome .done", has_text="Weeding").wait_for()
    close(page)
    page.locator("#services", has_text="from the page of the weeder").wait_for()


def test_the_audit_has_all_of_it(demo, tabs):
    page = tabs.open(f"{demo.url}/audit?namespace={QUIET}")
    text = page.locator("#audit").inner_text()
    for action in ("pause", "resume", "scale", "probe", "ignore", "weed", "cancel", "end-hold"):
        assert action in text


def test_an_attempt_that_is_refused_is_seen_in_the_audit_as_it_happens(demo, tabs):
    page = tabs.open(f"{demo.url}/audit?namespace={QUIET}")
    page.locator("#live", has_text=re.compile("live")).wait_for()
    time.sleep(2)  # what was there before is asked for again when the stream begins
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    pause = urllib.request.Request(  # noqa: S310 - ours
        f"{demo.url}{SHOOT}/pause", b"no JSON", {"Content-Type": "text/plain"}, method="PUT"
    )
    with pytest.raises(urllib.error.HTTPError, match="400") as refused:
        urllib.request.urlopen(pause, timeout=10)  # noqa: S310 - ours
    refused.value.close()
    page.locator("#audit .tag", has_text="400").first.wait_for(timeout=4_000)
    assert len(asked) == 1, "it was told by the stream, and asked for nothing before"


def test_the_story_is_watched_from_healthy_to_protected_and_back_without_a_reload(demo, tabs):
    page = tabs.open(demo.url)
    page.evaluate("window.unchanged = true")
    row = page.locator(f"tr[data-name='{CUT}']")
    assert row.get_attribute("data-state") == "Healthy"
    page.locator(f"tr[data-name='{CUT}'][data-state=Protected]").wait_for(timeout=130_000)
    assert page.locator("#shoots tbody tr").first.get_attribute("data-name") == CUT
    assert "Protected" in page.locator("#announce").inner_text()
    assert row.locator("b.zero").count() == 3
    why = tabs.open(f"{demo.url}/shoots/{CUT}")
    assert why.locator(".cell.expired").count() >= 4
    assert "scale down" in why.locator("#operations").inner_text()
    page.locator(f"tr[data-name='{CUT}'][data-state=Healthy]").wait_for(timeout=200_000)
    why.locator("#why[data-state=Healthy]").wait_for()
    assert page.evaluate("window.unchanged")


def test_the_stream_is_cut_and_back(demo, wire, tabs):
    tabs.expected.append("ERR_|Failed to load")
    page = tabs.open(wire.url)
    page.locator("#live", has_text="live").wait_for()
    wire.cut()
    page.locator("#live", has_text=re.compile(r"disconnected for [2-9]s, trying again")).wait_for()
    other = tabs.open(f"{demo.url}/shoots/{QUIET}")
    act(other, "Pause", reason="while you were away")
    wire.mend()
    page.locator("#live[data-tone=good]").wait_for()
    row = page.locator(f"tr[data-name='{QUIET}']", has_text="while you were away")
    row.wait_for()
    close(other)
    act(other, "Resume")
    row.wait_for(state="detached")


def test_another_site_can_do_nothing(demo, tabs):
    tabs.expected.append("CORS|403|Framing|ERR_|Failed to fetch|Failed to load")
    done = threading.Event()

    class Site(BaseHTTPRequestHandler):
        def do_GET(self):
            done.set()
            html = f"""<form id=f method=post enctype=text/plain action="{demo.url}/api/v1/shoots/{CUT}/scale">
                <input name='{{"direction":"down","reason":"x","a":"' value='"}}'></form>
                <iframe id=i src="{demo.url}/"></iframe>"""
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *_):
            pass

    site = HTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    try:
        page = tabs.open(f"http://localhost:{site.server_address[1]}/")
        body = "{method: 'PUT', headers: {'Content-Type': 'application/json'}, body: '{\"reason\": \"x\"}'}"
        failed = page.evaluate(f"fetch('{demo.url}/api/v1/pause', {body}).then(() => 0, () => 1)")
        assert failed == 1
        read = page.evaluate(f"fetch('{demo.url}/').then((a) => a.text()).then(() => 0, () => 1)")
        assert read == 1
        assert all(frame.url != f"{demo.url}/" for frame in page.frames)
        with page.expect_navigation():
            page.evaluate("document.getElementById('f').submit()")
        assert "cross-site" in page.content()
    finally:
        site.shutdown()
        site.server_close()
    assert demo.get("/api/v1/status")["pause"] is None
    assert [each for each in demo.get("/api/v1/operations")["items"] if each["reason"] == "x"] == []


def test_without_javascript_everything_is_read_and_nothing_is_offered_that_needs_it(demo, tabs):
    page = tabs.open(demo.url, java_script_enabled=False)
    assert page.locator("#shoots tbody tr").count() == 6
    page.locator("a.count", has_text="Healthy").click()
    assert page.url.endswith("?state=Healthy")
    page.locator("#shoots th a", has_text=QUIET).click()
    assert page.locator("h1").inner_text() == QUIET
    page.locator("details.action > summary", has_text="Scale down").click()
    assert not page.locator("details.action[open] button[type=submit]").is_visible()
    page.locator("details.action[open] .lines summary").click()
    assert "dwd scale down" in page.locator("details.action[open] [data-line=dwd]").inner_text()

    for path in ("/operations", "/weeders", "/audit", "/config"):
        page.goto(demo.url + path)
        assert page.locator("main h1").is_visible()
        assert page.locator("main table, main .item, main .item-block").count() > 0, path
