"""What people see: golden tables of answers, at an instant that is known."""

from app.api.schemas import (
    AuditList,
    HistoryEntry,
    Node,
    Operation,
    Pause,
    Plan,
    Recovery,
    Shoot,
    Status,
    Weeder,
)
from app.cli import answers, events, operations, overrides, process, shoots, tables, weeders
from app.core.model.instants import parse_rfc3339
from tests.cli import examples

NOW = parse_rfc3339("2027-01-15T08:00:00Z") or 0.0


def text(lines):
    return "\n".join(line.plain.rstrip() for line in lines) + "\n"


def one(data):
    return answers.of(Shoot, data)


def test_shoots_are_a_table():
    found = text(shoots.listed([one(examples.SHOOT), one(examples.HEALTHY)], NOW))
    assert found == (
        "NAMESPACE          STATE      REASON         FOR  LEASES                     AT 0  OVERRIDES\n"
        "shoot--acme--prod  Protected  LeasesExpired  12m  63/100 expired, 2 unknown  1/1   "
        "paused scaleDown (all shoots), 43m left, jane: hands off\n"
        "shoot--a--b        Healthy    LeasesRenewed  5d   0/3 expired                -     "
        "held up, 25m left, scaling run op-1 continues, joe: back now\n"
    )


def test_a_dependent_that_is_left_alone_is_named_beside_pauses_and_holds():
    alone = {**examples.SHOOT["resources"][0], "ignoreScaling": True}
    listed = {**examples.SHOOT, "pause": None, "resources": [alone, examples.SHOOT["resources"][1]]}
    row = text(shoots.listed([one(listed)], NOW)).splitlines()[1]
    assert row.endswith("1/1   ignored: kube-controller-manager")


def test_of_several_pauses_the_one_that_acts_is_shown_with_the_number_of_all():
    shoot = {**examples.SHOOT, "pauses": 3}
    shoot["pause"] = {**examples.SHOOT["pause"], "name": "night-shift", "verified": False}
    row = text(shoots.listed([one(shoot)], NOW)).splitlines()[1]
    says = "jane (unverified): hands off (Pause night-shift) (1 of 3 pauses)"
    assert row.endswith(f"paused scaleDown (all shoots), 43m left, {says}")
    assert says in text(shoots.detailed(one(shoot), NOW))


def test_an_unknown_author_is_not_called_unverified():
    shoot = {**examples.SHOOT}
    shoot["pause"] = {**examples.SHOOT["pause"], "author": "unknown", "verified": False}
    assert "left, unknown: hands off" in text(shoots.listed([one(shoot)], NOW))


def test_pauses_are_a_table():
    kubectl = {"name": "night-shift", "covers": "shoot", "scope": "all", "verified": False}
    found = [examples.SHOOT["pause"], {**examples.SHOOT["pause"], **kubectl}]
    assert text(overrides.pauses([answers.of(Pause, each) for each in found], NOW)) == (
        "PAUSE        COVERS      SCOPE      LEFT      AUTHOR             REASON\n"
        "api          all shoots  scaleDown  43m left  jane               hands off\n"
        "night-shift  this shoot  all        43m left  jane (unverified)  hands off\n"
    )


def test_leases_that_the_last_probe_could_not_read_are_no_numbers_of_now():
    shoot = one(examples.UNREACHABLE)
    row = text(shoots.listed([shoot], NOW)).splitlines()[1]
    assert row.split() == ["shoot--a--c", "Unreachable", "Unreachable", "12m", "-", "1/1", "-"]
    assert (
        "  leases      3m0s ago, and not read since: 0 of 100 expired: 63% (limit 60%); 0 unknown"
        in text(shoots.detailed(shoot, NOW))
    )


def test_a_seed_without_shoots_says_so():
    assert text(shoots.listed([], NOW)) == "no shoots\n"


def test_one_shoot_has_all_that_is_known():
    assert text(shoots.detailed(one(examples.SHOOT), NOW)) == (
        "shoot--acme--prod  Protected (LeasesExpired) since 2027-01-15T07:48:00Z, 12m ago\n"
        "63 of 100 node leases are older than 30s (limit 60%)\n"
        "\n"
        "  last probe  2s ago in 21ms: Hold (the leases alone say ScaleDown); 812 probes, "
        "3 failed in a row; next 08:00:03\n"
        "  leases      63 of 100 expired: 63% (limit 60%); 2 unknown; they expire after 30s; "
        "not counted: 1 NoMachine, 2 NotManaged\n"
        "  pause       paused scaleDown (all shoots), 43m left, jane: hands off\n"
        "\n"
        "RESOURCE                            REPLICAS  READY  SAVED  LEVEL UP  LEVEL DOWN  NOTES\n"
        "Deployment/kube-controller-manager  0         0      1      0         1           "
        "scaled down by the watchdog\n"
        "Deployment/cluster-autoscaler       -         -      -      2         0           "
        "optional, does not exist\n"
        "\n"
        "CONDITION           STATUS  FOR   REASON    MESSAGE\n"
        "APIServerReachable  True    2h0m  Answered  the API server answers\n"
    )


def test_a_shoot_that_was_never_looked_at_says_so():
    found = text(shoots.detailed(one({"namespace": "shoot--a--b"}), NOW))
    assert "  last probe  not yet\n  leases      not read yet\n" in found


def test_what_an_older_server_does_not_say_is_shown_as_nothing():
    assert text(shoots.listed([one({"namespace": "a"})], NOW)).splitlines()[1].split() == [
        "a",
        *"------",
    ]


def test_nodes_say_whether_they_count():
    other = {"name": "node-2", "candidate": None, "reason": "NotRead", "lease": "Missing"}
    found = [answers.of(Node, each) for each in (examples.NODE, other)]
    assert text(shoots.nodes(found)) == (
        "NODE    POOL    ZONE   COUNTS          LEASE    AGE   CLOCK\n"
        "node-1  worker  eu-1a  no: NotManaged  Expired  2m0s  -0.2s\n"
        "node-2  -       -      ? NotRead       Missing  -     -\n"
    )
    assert text(shoots.nodes([])) == "no nodes\n"


def test_history_is_newest_first_as_it_came():
    assert text(shoots.history([answers.of(HistoryEntry, examples.ENTRY)])) == (
        "TIME                  WHAT   REASON      MESSAGE\n"
        "2027-01-15T07:48:00Z  Scale  ScaledDown  Deployment/kube-controller-manager: 1 to 0\n"
    )
    assert text(shoots.history([])) == "nothing has happened yet\n"


def test_history_names_a_dependent_once():
    said = "Deployment/kube-controller-manager was scaled down from 1 to 0"
    found = text(shoots.history([answers.of(HistoryEntry, {**examples.ENTRY, "message": said})]))
    assert found.splitlines()[1].endswith(f"ScaledDown  {said}")


def test_operations_are_a_table_and_one_is_step_by_step():
    found = answers.of(
        Operation,
        examples.operation(
            "Failed",
            examples.step(),
            examples.step("Skipped", "Deployment/x", message="ignored", before=1, after=1),
            message="it broke",
            ended="2027-01-15T08:00:30Z",
            holdUntil="2027-01-15T08:30:00Z",
        ),
    )
    assert text(operations.listed([found], NOW + 60)) == (
        "ID    NAMESPACE    DIRECTION  BY    PHASE   AGE   REASON\n"
        "op-1  shoot--a--b  up         jane  Failed  1m0s  back now\n"
    )
    assert text(operations.detailed(found, NOW + 60)) == (
        "op-1  Failed  scale up of shoot--a--b\n"
        "  by          jane\n"
        "  reason      back now\n"
        "  begun       2027-01-15T08:00:00Z, 1m0s ago\n"
        "  ended       2027-01-15T08:00:30Z\n"
        "  held until  2027-01-15T08:30:00Z (29m left)\n"
        "  message     it broke\n"
        "\n"
        "LEVEL  RESOURCE                            PHASE    REPLICAS  BEGUN     ENDED     MESSAGE\n"
        "0      Deployment/kube-controller-manager  Done     0 → 1     08:00:01  08:00:09  -\n"
        "0      Deployment/x                        Skipped  1         08:00:01  08:00:09  ignored\n"
    )
    assert text(operations.listed([], NOW)) == "no operations\n"


def test_a_plan_is_level_by_level_and_says_how_to_do_exactly_that():
    assert text(operations.planned(answers.of(Plan, examples.PLAN))) == (
        "LEVEL  RESOURCE                            WOULD  REPLICAS  DELAY  WHY\n"
        "0      Deployment/kube-controller-manager  Write  0 → 1     10s    ScaledUp\n"
        "The automatic scaling run op-0 would end.\n"
        "Nothing was written. To do exactly this: --if-match '\"all\"'\n"
    )
    assert text(operations.planned(answers.of(Plan, {}))) == "nothing would be done\n"


def test_services_are_a_table_of_their_newest_recoveries():
    never = {"namespace": "shoot--a--b", "service": "etcd", "ready": False}
    found = [answers.of(Weeder, each) for each in (examples.WEEDER, never)]
    assert text(weeders.listed(found, NOW)) == (
        "NAMESPACE    SERVICE         READY  RECOVERY  CAUSE        AGE   DELETED  QUEUED  SPARED\n"
        "shoot--a--b  kube-apiserver  yes    Watching  BecameReady  1m0s  1        1       1\n"
        "shoot--a--b  etcd            no     -         -            -     0        0       0\n"
    )
    assert text(weeders.listed([], NOW)) == "no recoveries\n"


def test_one_service_has_each_pod_and_why_others_were_left():
    assert text(weeders.detailed(answers.of(Weeder, examples.WEEDER), NOW)) == (
        "shoot--a--b/kube-apiserver  ready since 2027-01-15T07:59:00Z, 1m0s ago\n"
        "\n"
        "recovery 7\n"
        "  state   Watching\n"
        "  cause   BecameReady\n"
        "  began   2027-01-15T07:59:00Z, 1m0s ago\n"
        "  until   2027-01-15T08:04:00Z (4m0s left)\n"
        "  queued  1\n"
        "  DELETED                TIME                  RESULT   CONTAINER       SPARED BACK-OFF\n"
        "  kube-scheduler-5d-x2p  2027-01-15T07:59:00Z  deleted  kube-scheduler  2m31s\n"
        "  NOT DELETED  REASON      MESSAGE\n"
        "  vpa-7-abc    NotWaiting  none of its containers waits\n"
        "\n"
        "recovery 6\n"
        "  state     Completed at 2027-01-15T07:05:00Z\n"
        "  cause     Asked\n"
        "  asked by  jane: it hangs\n"
        "  began     2027-01-15T07:00:00Z, 1h0m ago\n"
        "  trouble   may not delete pods\n"
    )


def test_a_service_that_never_came_back_says_so():
    found = answers.of(Weeder, {"namespace": "a", "service": "etcd", "failing": "it broke"})
    assert text(weeders.detailed(found, NOW)) == (
        "a/etcd  not known to be ready\n  failing  it broke\nno recoveries\n"
    )


def test_a_process_says_who_leads_and_what_deserves_a_look():
    found = answers.of(Status, examples.STATUS | {"pause": examples.SHOOT["pause"]})
    assert text(process.told(found, NOW)) == (
        "leader  dependency-watchdog 1.2.3, since 2027-01-15T07:00:00Z, 1h0m ago\n"
        "  prober    led by dwd-7f9_1 at 10.0.0.7:8080\n"
        "  weeder    no leader\n"
        "  shoots    2 Protected, 27 Healthy\n"
        "  pause     paused scaleDown (all shoots), 43m left, jane: hands off\n"
        "  off       api: no TLS\n"
        "  no right  patch deployments.apps kube-controller-manager in all namespaces: needed to protect\n"
        "  no right  create configmaps in garden: feature overrides is off\n"
        "  warning   probeIntervall: line 3: unknown key\n"
        "  unknown   Deployment/x in shoot--a--b carries the meltdown key but is not configured\n"
        "  no pods   kube-apiserver[0] has matched no pod for an hour\n"
    )


def test_a_standby_does_not_know_the_shoots_and_a_dry_run_says_what_it_is():
    standby = {**examples.STATUS, "role": "standby", "dryRun": True, "counts": None}
    found = text(process.told(answers.of(Status, standby), NOW))
    assert found.startswith("standby, in a dry run  dependency-watchdog 1.2.3, since ")
    assert "  shoots    only the prober's leader knows\n" in found
    assert "  shoots    none\n" in text(
        process.told(answers.of(Status, {**standby, "counts": {"Healthy": 0}}), NOW)
    )


def test_attempts_are_a_table_and_it_is_said_since_when():
    early = {
        **examples.ATTEMPT,
        "action": None,
        "caller": None,
        "claimed": None,
        "status": None,
        "times": 1,
    }
    data = {"items": [examples.ATTEMPT, early], "metadata": {"since": "2027-01-15T07:00:00Z"}}
    assert text(process.attempts(answers.of(AuditList, data))) == (
        "TIME                  CALLER  CLAIMED               FROM      "
        "ACTION                                SHOOT        TARGET  STATUS  TIMES  REASON\n"
        "2027-01-15T07:59:00Z  jane    jane.doe@example.org  10.0.0.1  "
        "pause                                 shoot--a--b  -       403     3      hands off\n"
        "2027-01-15T07:59:00Z  -       -                     10.0.0.1  "
        "PUT /api/v1/shoots/shoot--a--b/pause  shoot--a--b  -       -       1      hands off\n"
        "All since 2027-01-15T07:00:00Z; the log has what came before.\n"
    )
    assert text(process.attempts(answers.of(AuditList, {}))).startswith("All since -;")


def test_a_recovery_says_until_when():
    found = answers.of(Recovery, {**examples.RECOVERY, "until": "2027-01-15T08:05:00Z"})
    assert text(weeders.begun("a/b", found, NOW)) == (
        "recovery of a/b: Opening, until 2027-01-15T08:05:00Z (5m0s left)\n"
    )


def told(name, data):
    line = events.told(name, data, "08:00:00")
    return None if line is None else line.plain


def test_events_are_a_line_each():
    assert told("shoot", examples.SHOOT) == (
        "08:00:00  shoot--acme--prod  Protected (LeasesExpired): 63 of 100 node leases are older "
        "than 30s (limit 60%)"
    )
    assert told("operation", examples.operation("Running", examples.step())) == (
        "08:00:00  shoot--a--b  scale up Running (op-1); Deployment/kube-controller-manager 0 → 1 Done"
    )
    weeder = {
        "namespace": "n",
        "service": "s",
        "ready": True,
        "since": None,
        "failing": None,
        "recovery": {**examples.RECOVERY, "deletions": 2, "spared": 1, "trouble": "slow"},
    }
    assert told("weeder", weeder) == (
        "08:00:00  n/s  is ready; recovery Opening: 2 deleted, 0 wait, 1 spared, slow"
    )
    assert told("shoot-gone", {"namespace": "n"}) == "08:00:00  n  is gone"
    assert told("gap", {"reason": "too old"}) == (
        "08:00:00  gap  too old; the current state follows"
    )
    assert told("end", {"reason": "stopped"}) == "08:00:00  end  stopped"
    assert told("snapshot-end", {"items": 3}) is None


def test_a_decision_is_set_or_ended():
    pause = {"namespace": None, "kind": "pause", "resource": None, "author": "jane"}
    assert told("override", {**pause, "before": None, "after": examples.PAUSE}) == (
        "08:00:00  all shoots  pause all by jane until 2099-01-15T09:00:00Z: hands off"
    )
    kubectl = {**examples.PAUSE, "name": "night-shift", "verified": False}
    assert told("override", {**pause, "before": None, "after": kubectl}) == (
        "08:00:00  all shoots  pause all by jane (unverified) until 2099-01-15T09:00:00Z: hands off "
        "(Pause night-shift)"
    )
    assert told("override", {**pause, "before": examples.PAUSE, "after": None}) == (
        "08:00:00  all shoots  pause ended by jane"
    )
    ignored = {"namespace": "n", "kind": "ignore-scaling", "resource": "Deployment/x"}
    assert told("override", {**ignored, "author": None, "before": False, "after": True}) == (
        "08:00:00  n  ignore-scaling of Deployment/x set"
    )
    assert told("override", {**ignored, "author": None, "before": True, "after": False}) == (
        "08:00:00  n  ignore-scaling of Deployment/x ended"
    )


def test_an_event_of_a_newer_server_is_named():
    line = told("comet", {"any": 1})
    assert line == "08:00:00  comet  (unknown to this version of dwd)"


def test_control_characters_are_shown_in_no_view():
    nasty = "x\x1b[2J\x9b\u202e\ny"
    shoot = {**examples.SHOOT, "message": nasty, "reason": nasty, "state": nasty}
    shoot |= {"pause": {**examples.PAUSE, "reason": nasty, "author": nasty}}
    found = one({**shoot, "namespace": nasty})
    flow = answers.of(Operation, examples.operation(reason=nasty, message=nasty, author=nasty))
    entry = answers.of(HistoryEntry, {**examples.ENTRY, "message": nasty, "resource": nasty})
    lines = [
        *shoots.listed([found], NOW),
        *shoots.detailed(found, NOW),
        *shoots.history([entry]),
        *operations.listed([flow], NOW),
        *operations.detailed(flow, NOW),
        events.told(nasty, {}, "08:00:00"),
        events.told("shoot", shoot, "08:00:00"),
    ]
    assert [line.plain for line in lines if line and not line.plain.isprintable()] == []


def test_columns_fit_wide_characters():
    rows = tables.table(("A", "B"), [("日本", "x"), ("abc", "y")])
    assert [line.plain for line in rows] == ["A     B", "日本  x", "abc   y"]


def test_spans_are_as_exact_as_people_want_them():
    shown = [tables.span(each) for each in (0, 42.9, 310, 720, 3600, 5400, 30_000, 200_000)]
    assert shown == ["0s", "42s", "5m10s", "12m", "1h0m", "1h30m", "8h", "2d"]


def test_times_that_are_none_are_nothing():
    assert tables.since(None, NOW) == tables.since("soon", NOW) == tables.clock("x") == "-"
    assert tables.since("2027-01-15T09:00:00Z", NOW) == "0s", "our clock is behind"
    assert tables.until("2027-01-15T07:00:00Z", NOW) == "2027-01-15T07:00:00Z"
