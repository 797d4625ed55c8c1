"""hack/bring-back, which the runbook has people run before they stop the watchdog, against a fake `dwd`."""

import json
import os
import shutil

import pytest

from tests.docs.pages import ROOT
from tests.support.programs import ended

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("bash", "jq"))), reason="the script is written for bash and jq"
)

DWD = r"""#!/usr/bin/env bash
echo "$*" >>calls
case "$1 $2" in
"shoots -o") cat "$(if grep -q '^scale' calls; then echo after; else echo before; fi)" ;;
"operations -o") cat "operations.$(grep -c '^operations' calls)" 2>/dev/null || echo '{"items": []}' ;;
"resume shoot--a--gone") exit 4 ;;
"scale up") [ "$3" != shoot--a--slow ] || sleep 2
  [ "$3" != shoot--a--meets ] || for turn in {1..101}; do
    [ "$(grep -c '^scale' calls)" = 1 ] || break
    [ "$turn" != 101 ] || exit 1
    sleep 0.1
  done
  [ "$3" != shoot--a--refused ] || [[ "$*" = *--force* ]] || { echo "leases say down" >&2; exit 3; } ;;
esac
"""
RUNNING = {"items": [{"phase": "Running"}, {"phase": "Done"}]}


def shoots(*protected, held=(), asleep=()):
    """The answer to `dwd shoots`; `held` are namespaces, with the hold's direction, `asleep` some of `protected`."""
    held = dict(held)
    names = {*protected, *held, "shoot--a--well"}
    return {
        "items": [
            {
                "namespace": each,
                "reason": "Hibernated" if each in asleep else "LeasesExpired",
                "hold": {"direction": held[each]} if each in held else None,
                "resources": [{"protectionActive": each in protected}],
            }
            for each in sorted(names)
        ]
    }


def run(folder, *words, before=None, after=None, operations=(), limit=300):
    """What the script does: its exit code, standard error and each call of `dwd`."""
    program = folder / "dwd"
    program.write_text(DWD)
    program.chmod(0o755)
    (folder / "before").write_text(json.dumps(before or shoots()))
    (folder / "after").write_text(json.dumps(after or shoots()))
    for number, each in enumerate(operations, 1):
        (folder / f"operations.{number}").write_text(json.dumps(each))
    (folder / "calls").touch()
    found = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "LIMIT": str(limit)}
    done = ended(ROOT / "hack/bring-back", *words, cwd=folder, env=found)
    return done.returncode, done.stderr, (folder / "calls").read_text().splitlines()


def test_it_pauses_first_and_scales_up_each_protected_shoot(tmp_path):
    before = shoots("shoot--a--one", "shoot--a--two")
    code, _, calls = run(tmp_path, "--reason", "we stop it", before=before)
    assert code == 0
    assert calls[0] == "pause --all --scope scaleDown --reason we stop it"
    assert sorted(each for each in calls if each.startswith("scale")) == [
        "scale up shoot--a--one --reason we stop it",
        "scale up shoot--a--two --reason we stop it",
    ]


def test_shoots_do_not_wait_for_each_other(tmp_path):
    before = shoots("shoot--a--meets", *(f"shoot--b--{number}" for number in range(19)))
    code, said, calls = run(tmp_path, "--reason", "x", before=before)
    assert (code, said) == (0, "")
    assert len({each for each in calls if each.startswith("scale")}) == 20


def test_it_waits_until_no_scaling_run_is_under_way_however_long_it_took_to_begin_them(tmp_path):
    before = shoots("shoot--a--slow")
    code, _, calls = run(tmp_path, "--reason", "x", before=before, operations=[RUNNING], limit=1)
    assert (code, calls.count("operations -o json")) == (0, 2)


def test_it_gives_up_on_scaling_runs_that_do_not_end_and_names_what_is_still_at_zero(tmp_path):
    answers = {"operations": [RUNNING] * 9, "before": shoots("a"), "after": shoots("a")}
    code, said, _ = run(tmp_path, "--reason", "x", limit=1, **answers)
    assert (code, said) == (1, "scaling runs do not end: dwd operations\na: still at 0\n")


def test_what_stays_at_zero_is_named_and_fails(tmp_path):
    refused = shoots("shoot--a--refused")
    code, said, _ = run(tmp_path, "--reason", "x", before=refused, after=refused)
    assert code == 1
    assert said.splitlines() == [
        "leases say down",
        "shoot--a--refused: refused, see above",
        "shoot--a--refused: still at 0",
    ]


def test_with_force_it_scales_up_what_still_looks_cut_off(tmp_path):
    code, _, calls = run(tmp_path, "--reason", "x", "--force", before=shoots("shoot--a--refused"))
    assert code == 0
    assert "scale up shoot--a--refused --reason x --force" in calls


def test_a_shoot_that_sleeps_is_named_and_never_scaled(tmp_path):
    """Its controllers would run without an API server, until gardenlet reconciles it."""
    found = shoots("shoot--a--one", "shoot--a--asleep", asleep=["shoot--a--asleep"])
    after = shoots("shoot--a--asleep", asleep=["shoot--a--asleep"])
    code, said, calls = run(tmp_path, "--reason", "x", "--force", before=found, after=after)
    assert (code, said) == (1, "shoot--a--asleep: still at 0\n")
    scaled = [each for each in calls if each.startswith("scale")]
    assert scaled == ["scale up shoot--a--one --reason x --force"]


@pytest.mark.parametrize(("name", "fails"), [("shoot--a--held", 0), ("shoot--a--gone", 1)])
def test_resume_ends_the_pause_and_each_hold_of_a_scale_up_and_nothing_else(tmp_path, name, fails):
    held = {name: "up", "shoot--a--kept-down": "down", "shoot--a--last": "up"}
    code, _, calls = run(tmp_path, "--resume", before=shoots("shoot--a--one", held=held))
    ended = [f"resume {each} --hold" for each in (name, "shoot--a--last")]
    assert (code, calls) == (fails, ["resume --all", "shoots -o json", *ended])


@pytest.mark.parametrize("words", [[], ["--force"], ["--reason"], ["--reason", ""], ["--what"]])
def test_without_a_reason_it_says_how_it_is_used_and_does_nothing(tmp_path, words):
    code, said, calls = run(tmp_path, *words)
    assert (code, calls) == (2, [])
    first, _, last = said.splitlines()
    assert first.startswith("hack/bring-back --reason TEXT")
    assert last.startswith("hack/bring-back --resume")
