"""The files of prober and weeder: what loads, what is refused with which words, and that nothing else ever happens."""

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.config import policy_files
from app.core.config.yaml_file import MAX_BYTES, keys_of
from app.core.errors import ConfigurationError
from app.core.model.endpoints import EndpointProbeSpec, Exec, HttpGet, ProbeType
from app.core.model.keys import MatchExpression, PodSelector, Ref
from app.core.model.policy import DependentPolicy, OnFailure, ProberPolicy, ScalePolicy
from app.core.model.weeding import PodSelectors, WeederPolicy
from app.core.model.workloads import ResourceRef

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[2]
KCM = ResourceRef("apps/v1", "Deployment", "kube-controller-manager")
MCM = ResourceRef("apps/v1", "Deployment", "machine-controller-manager")
CA = ResourceRef("apps/v1", "Deployment", "cluster-autoscaler")


def expected(path):
    lines = path.with_suffix(".txt")
    return lines.read_text().splitlines() if lines.exists() else []


def mistakes(text, *, strict=True):
    with pytest.raises(ConfigurationError) as caught:
        policy_files.parse_prober(text, "file", strict=strict)
    return [str(each) for each in caught.value.mistakes]


DEPENDENT = {
    "ref": {"apiVersion": KCM.api_version, "kind": KCM.kind, "name": KCM.name},
    "scaleUp": {},
    "scaleDown": {},
}


def file_with(**keys):
    """A minimal file in YAML with `keys` replaced at the top."""
    top = {"kubeConfigSecretName": "probe", "dependentResourceInfos": [DEPENDENT]}
    return yaml.safe_dump(top | keys)


READERS: dict[str, Callable[..., policy_files.Loaded[Any]]] = {
    ".": partial(policy_files.read_prober_file, allow_exec=True),
    "endpoint": partial(policy_files.read_prober_file, allow_exec=True),
    "weeder": policy_files.read_weeder_file,
}
"""What reads the files of a folder, which has good and bad ones, with their warnings and mistakes in a text beside."""


def files(kind):
    found = [(folder, path) for folder in READERS for path in (HERE / folder / kind).glob("*.yaml")]
    names = [f"{folder}/{path.stem}" for folder, path in found]
    return pytest.mark.parametrize(("folder", "path"), sorted(found), ids=sorted(names))


@files("bad")
def test_each_mistake_is_refused_with_its_exact_message(folder, path):
    with pytest.raises(ConfigurationError) as caught:
        READERS[folder](path, strict=True)
    assert caught.value.source == str(path)
    assert [str(each) for each in caught.value.mistakes] == expected(path) != []


@files("good")
def test_each_good_file_loads_with_exactly_its_warnings(folder, path):
    loaded = READERS[folder](path, strict=False)
    assert [str(each) for each in loaded.warnings] == expected(path)


@pytest.mark.parametrize(("folder", "least"), [(".", 45), ("endpoint", 115), ("weeder", 90)])
def test_no_text_is_without_its_file(folder, least):
    for kind in ("good", "bad"):
        texts = {each.stem for each in (HERE / folder / kind).glob("*.txt")}
        assert texts <= {each.stem for each in (HERE / folder / kind).glob("*.yaml")}
    assert len(list((HERE / folder / "bad").glob("*.yaml"))) >= least


def test_the_file_that_gardener_deploys_means_what_it_says():
    loaded = policy_files.read_prober_file(HERE / "good/gardener.yaml", strict=True)
    assert loaded.warnings == ()
    assert loaded.policy == ProberPolicy(
        kubeconfig_secret="shoot-access-dependency-watchdog-probe",
        probe_interval=30.0,
        dependents=(
            DependentPolicy(KCM, ScalePolicy(0), ScalePolicy(1)),
            DependentPolicy(MCM, ScalePolicy(1, initial_delay=30.0), ScalePolicy(0)),
            DependentPolicy(CA, ScalePolicy(2), ScalePolicy(0), optional=True),
        ),
    )


def test_the_example_has_every_key_of_lease_mode_at_its_default():
    path = REPOSITORY / "config/prober.yaml"
    loaded = policy_files.read_prober_file(path, strict=True)
    gardener = policy_files.read_prober_file(HERE / "good/gardener.yaml", strict=True).policy
    assert loaded.warnings == ()
    assert loaded.policy == ProberPolicy(gardener.kubeconfig_secret, gardener.dependents)
    elsewhere = {
        "internalKubeConfigSecretName",
        "externalKubeConfigSecretName",
        "internalProbeFailureBackoffDuration",
        "endpointProbes",
    }
    assert set(yaml.safe_load(path.read_text())) == set(keys_of(ProberPolicy)) - elsewhere


def test_older_spellings_and_keys_mean_what_they_meant():
    policy = policy_files.read_prober_file(HERE / "good/older-spellings.yaml", strict=True).policy
    assert (policy.kubeconfig_secret, policy.probe_interval) == ("shoot-access-probe", 20.0)
    assert (policy.jitter, policy.failure_threshold, policy.success_threshold) == (0.1, 3, 1)
    dependents = {each.ref: each for each in policy.dependents}
    assert dependents[KCM].scale_up == ScalePolicy(1, initial_delay=10.0, timeout=60.0)
    assert (dependents[KCM].optional, dependents[CA].optional) == (False, True)


def test_anchors_and_merge_keys_give_what_they_stand_for_and_own_keys_win():
    policy = policy_files.read_prober_file(HERE / "good/anchors.yaml", strict=True).policy
    first, second = policy.dependents
    assert (policy.probe_interval, policy.suspect_interval, policy.limit) == (3.0, 3.0, 0.5)
    assert (first.scale_up, first.scale_down) == (ScalePolicy(1, 0, 120), ScalePolicy(2, 0, 120))
    assert second.ref == ResourceRef("apps/v1", "Deployment", "autoscaler")


def test_the_suspect_interval_defaults_to_a_probe_interval_that_is_shorter():
    loaded = policy_files.parse_prober(file_with(probeInterval="2s"), "file", strict=True)
    assert loaded.policy.suspect_interval == 2.0


def test_what_a_failed_resource_leads_to_can_be_chosen():
    text = file_with(onScaleDownFailure="Stop", onScaleUpFailure="Continue")
    policy = policy_files.parse_prober(text, "file", strict=True).policy
    assert (policy.on_scale_down_failure, policy.on_scale_up_failure) == (
        OnFailure.STOP,
        OnFailure.CONTINUE,
    )


def test_an_unknown_key_never_stops_the_running_program():
    text = file_with(probeIntervall="20s")
    message = "unknown key; the nearest known key is probeInterval"
    assert mistakes(text, strict=True) == [f"line 9: probeIntervall: {message}"]
    loaded = policy_files.parse_prober(text, "file", strict=False)
    assert [str(each) for each in loaded.warnings] == [f"probeIntervall (line 9): {message}"]


def test_a_wrong_value_stops_the_running_program_too():
    assert mistakes(file_with(probeInterval="0s", later=1), strict=False) == [
        'line 10: probeInterval: must be above 0s, not the string "0s"'
    ]


def test_a_resource_of_the_core_group_can_be_a_dependent():
    ref = {"apiVersion": "v1", "kind": "ReplicationController", "name": "old.one-2"}
    text = file_with(dependentResourceInfos=[{"ref": ref, "scaleUp": {}, "scaleDown": {}}])
    (dependent,) = policy_files.parse_prober(text, "file", strict=True).policy.dependents
    assert dependent.ref == ResourceRef("v1", "ReplicationController", "old.one-2")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere.yaml", "cannot be read: No such file or directory"),
        (".", "cannot be read: Is a directory"),
        ("a\0b", "cannot be read: embedded null byte"),
        ("/dev/zero", f"is larger than {MAX_BYTES} bytes"),  # and is not read to its end
    ],
)
def test_a_file_that_cannot_be_read_is_refused(path, message, tmp_path):
    with pytest.raises(ConfigurationError, match=message):
        policy_files.read_prober_file(tmp_path / path, strict=False)


def test_a_file_that_may_not_be_read_is_refused(monkeypatch):
    monkeypatch.setattr(Path, "open", Mock(side_effect=PermissionError(13, "Permission denied")))
    with pytest.raises(ConfigurationError, match="cannot be read: Permission denied"):
        policy_files.read_prober_file(Path("file.yaml"), strict=False)


def test_a_byte_order_mark_does_no_harm(tmp_path):
    path = tmp_path / "file.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + file_with().encode())
    assert policy_files.read_prober_file(path, strict=True).policy.kubeconfig_secret == "probe"


def test_a_file_of_the_greatest_size_is_refused_in_a_moment():
    deep = "[" * (MAX_BYTES - 1)
    assert mistakes(deep) == ["line 1: (file): is nested more than 20 deep"]
    wide = "- a\n" * (MAX_BYTES // 4)
    assert mistakes(wide) == ["line 20000: (file): stands for more than 20000 values"]


# Nothing else ever happens, whatever a file holds.


GOOD = [
    (folder, yaml.safe_load(path.read_text()))
    for folder in READERS
    for path in sorted((HERE / folder / "good").glob("*.yaml"))
]
KEYS = [
    key
    for each in (
        *(ProberPolicy, DependentPolicy, Ref, ScalePolicy, EndpointProbeSpec, HttpGet, Exec),
        *(WeederPolicy, PodSelectors, PodSelector, MatchExpression),
    )
    for key in keys_of(each)
]
ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.dates()
    | st.text(max_size=8)
    | st.sampled_from(["10s", "0s", "-1s", "apps/v1", "Deployment", "Stop", "In", "a/b", "", "~"])
    | st.sampled_from(["Startup", "Liveness", "GateScaleDown", "{namespace}", "https", "a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=5) | st.integers() | st.sampled_from(KEYS), inner, max_size=3
        )
    ),
    max_leaves=8,
)


def places(value, path=()):
    """Each place in nested mappings and lists, as a path of keys and indexes."""
    yield path
    if isinstance(value, dict | list):
        children = value.items() if isinstance(value, dict) else enumerate(value)
        for key, child in children:
            yield from places(child, (*path, key))


def changed(value, path, other):
    if not path:
        return other
    result = copy.deepcopy(value)
    inner = result
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = other
    return result


def loads_or_is_refused(folder, text, *, strict=False):
    try:
        if folder == "weeder":
            weeder = policy_files.parse_weeder(text, "file", strict=strict).policy
            assert weeder.watch_duration > 0
            assert all(weeder.services.values())
        else:
            prober = policy_files.parse_prober(text, "file", strict=strict, allow_exec=True).policy
            assert prober.probe_interval > 0
            assert prober.dependents
            assert len({each.name for each in prober.endpoint_probes}) == len(
                prober.endpoint_probes
            )
            for each in prober.endpoint_probes:
                is_sound(each)
    except ConfigurationError:
        return


def is_sound(probe):
    """What whoever runs endpoint probes may rely on."""
    assert (probe.host is None) != (probe.pods is None)
    of_a_container = probe.container, isinstance(probe.handler, Exec), named_port(probe)
    assert probe.pods is not None or not any(of_a_container)
    assert probe.type is ProbeType.READINESS or (probe.pods is not None and not probe.gates)
    assert probe.success_threshold == 1 or probe.type is ProbeType.READINESS
    assert min(probe.period, probe.timeout, probe.failure_threshold) >= 1
    assert probe.initial_delay >= 0
    assert probe.name


def named_port(probe):
    return isinstance(getattr(probe.handler, "port", 0), str)


@settings(deadline=None)  # the machine may be busy
@given(st.data(), st.sampled_from(GOOD), ODD, st.booleans())
def test_any_value_anywhere_gives_a_policy_or_a_configuration_error(data, good, other, strict):
    folder, content = good
    path = data.draw(st.sampled_from(list(places(content))))
    loads_or_is_refused(folder, yaml.safe_dump(changed(content, path, other)), strict=strict)


@settings(deadline=None)  # the machine may be busy
@given(st.sampled_from(GOOD), st.data(), st.integers(0, 40), st.text(max_size=5))
def test_any_change_of_the_text_gives_a_policy_or_a_configuration_error(good, data, cut, other):
    text = yaml.safe_dump(good[1])
    at = data.draw(st.integers(0, len(text)))
    loads_or_is_refused(good[0], text[:at] + other + text[at + cut :])


BEFORE = {
    ".": file_with(),
    "endpoint": file_with() + "endpointProbes:\n- name: a\n",
    "weeder": "servicesAndDependantSelectors:\n  etcd:\n    podSelectors:\n",
}


@settings(deadline=None)  # the machine may be busy
@given(
    st.sampled_from(list(READERS)),
    st.text() | st.text(alphabet=":-[]{},&*!|>'\"%@`?#~<= \n\tab01.", max_size=60),
)
def test_any_yaml_like_text_gives_a_policy_or_a_configuration_error(folder, text):
    loads_or_is_refused(folder, text)
    loads_or_is_refused(folder, BEFORE[folder] + text)
