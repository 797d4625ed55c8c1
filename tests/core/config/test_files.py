"""The prober file: what loads, what is refused with which words, and that nothing else ever happens."""

import os
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.config.policy_files import parse_prober, read_prober_file
from app.core.config.yaml_file import MAX_BYTES, keys_of
from app.core.errors import ConfigurationError
from app.core.model.keys import Ref
from app.core.model.policy import DependentPolicy, OnFailure, ProberPolicy, ScalePolicy
from app.core.model.workloads import ResourceRef

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[2]
BAD = sorted((HERE / "bad").glob("*.yaml"))
GOOD = sorted((HERE / "good").glob("*.yaml"))
KCM = ResourceRef("apps/v1", "Deployment", "kube-controller-manager")
MCM = ResourceRef("apps/v1", "Deployment", "machine-controller-manager")
CA = ResourceRef("apps/v1", "Deployment", "cluster-autoscaler")


def name(path):
    return path.stem


def expected(path):
    lines = path.with_suffix(".txt")
    return lines.read_text().splitlines() if lines.exists() else []


def mistakes(text, *, strict=True):
    with pytest.raises(ConfigurationError) as caught:
        parse_prober(text, "file", strict=strict)
    return [str(each) for each in caught.value.mistakes]


def file_with(**keys):
    """A minimal file in YAML with `keys` replaced at the top."""
    top = {
        "kubeConfigSecretName": "probe",
        "dependentResourceInfos": [
            {
                "ref": {"apiVersion": KCM.api_version, "kind": KCM.kind, "name": KCM.name},
                "scaleUp": {},
                "scaleDown": {},
            }
        ],
    }
    return yaml.safe_dump(top | keys)


@pytest.mark.parametrize("path", BAD, ids=name)
def test_each_mistake_is_refused_with_its_exact_message(path):
    with pytest.raises(ConfigurationError) as caught:
        read_prober_file(path, strict=True)
    assert caught.value.source == str(path)
    assert [str(each) for each in caught.value.mistakes] == expected(path)


def test_every_bad_file_has_its_messages_and_every_message_its_file():
    assert len(BAD) >= 45
    assert {path.stem for path in BAD} == {path.stem for path in (HERE / "bad").glob("*.txt")}
    assert all(expected(path) for path in BAD)


@pytest.mark.parametrize("path", GOOD, ids=name)
def test_each_good_file_loads_with_exactly_its_warnings(path):
    loaded = read_prober_file(path, strict=False)
    assert [str(each) for each in loaded.warnings] == expected(path)


def test_the_file_that_gardener_deploys_means_what_it_says():
    loaded = read_prober_file(HERE / "good/gardener.yaml", strict=True)
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
    loaded = read_prober_file(path, strict=True)
    gardener = read_prober_file(HERE / "good/gardener.yaml", strict=True).policy
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
    policy = read_prober_file(HERE / "good/older-spellings.yaml", strict=True).policy
    assert (policy.kubeconfig_secret, policy.probe_interval) == ("shoot-access-probe", 20.0)
    assert (policy.jitter, policy.failure_threshold, policy.success_threshold) == (0.1, 3, 1)
    assert policy.dependent(KCM).scale_up == ScalePolicy(1, initial_delay=10.0, timeout=60.0)
    assert (policy.dependent(KCM).optional, policy.dependent(CA).optional) == (False, True)


def test_anchors_and_merge_keys_give_what_they_stand_for_and_own_keys_win():
    policy = read_prober_file(HERE / "good/anchors.yaml", strict=True).policy
    first, second = policy.dependents
    assert (policy.probe_interval, policy.suspect_interval, policy.limit) == (3.0, 3.0, 0.5)
    assert (first.scale_up, first.scale_down) == (ScalePolicy(1, 0, 120), ScalePolicy(2, 0, 120))
    assert second.ref == ResourceRef("apps/v1", "Deployment", "autoscaler")


def test_the_suspect_interval_defaults_to_a_probe_interval_that_is_shorter():
    loaded = parse_prober(file_with(probeInterval="2s"), "file", strict=True)
    assert loaded.policy.suspect_interval == 2.0


def test_what_a_failed_resource_leads_to_can_be_chosen():
    text = file_with(onScaleDownFailure="Stop", onScaleUpFailure="Continue")
    policy = parse_prober(text, "file", strict=True).policy
    assert (policy.on_scale_down_failure, policy.on_scale_up_failure) == (
        OnFailure.STOP,
        OnFailure.CONTINUE,
    )


def test_an_unknown_key_never_stops_the_running_program():
    text = file_with(probeIntervall="20s")
    message = "unknown key; the nearest known key is probeInterval"
    assert mistakes(text, strict=True) == [f"line 9: probeIntervall: {message}"]
    loaded = parse_prober(text, "file", strict=False)
    assert [str(each) for each in loaded.warnings] == [f"probeIntervall (line 9): {message}"]


def test_a_wrong_value_stops_the_running_program_too():
    assert mistakes(file_with(probeInterval="0s", later=1), strict=False) == [
        'line 10: probeInterval: must be above 0s, not the string "0s"'
    ]


@pytest.mark.parametrize("key", tuple(keys_of(ProberPolicy)))
def test_each_key_of_the_file_is_read(key):
    assert any(f"{key}: " in each for each in mistakes(file_with(**{key: {"odd": 1}})))


@pytest.mark.parametrize("key", tuple(keys_of(DependentPolicy)))
def test_each_key_of_a_dependent_is_read(key):
    path = f"dependentResourceInfos[0].{key}: "
    assert any(path in each for each in mistakes(file_with(dependentResourceInfos=[{key: 7}])))


@pytest.mark.parametrize("key", tuple(keys_of(Ref)))
def test_each_key_of_a_ref_is_read(key):
    dependent = {"ref": {key: 7}}
    found = mistakes(file_with(dependentResourceInfos=[dependent]))
    assert any(f"ref.{key}: must be a string" in each for each in found)


@pytest.mark.parametrize("key", tuple(keys_of(ScalePolicy)))
@pytest.mark.parametrize("direction", ["scaleUp", "scaleDown"])
def test_each_key_of_a_scaling_is_read(direction, key):
    dependent = {direction: {key: "odd"}}
    found = mistakes(file_with(dependentResourceInfos=[dependent]))
    assert any(f"{direction}.{key}: must be" in each for each in found)


def test_a_resource_of_the_core_group_can_be_a_dependent():
    ref = {"apiVersion": "v1", "kind": "ReplicationController", "name": "old.one-2"}
    text = file_with(dependentResourceInfos=[{"ref": ref, "scaleUp": {}, "scaleDown": {}}])
    (dependent,) = parse_prober(text, "file", strict=True).policy.dependents
    assert dependent.ref == ResourceRef("v1", "ReplicationController", "old.one-2")


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be read: No such file or directory"):
        read_prober_file(tmp_path / "nowhere.yaml", strict=False)


def test_a_directory_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be read: Is a directory"):
        read_prober_file(tmp_path, strict=False)


def test_a_path_that_cannot_be_one_is_refused():
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_prober_file(Path("a\0b"), strict=False)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_refused(tmp_path):
    path = tmp_path / "secret.yaml"
    path.write_text("")
    path.chmod(0)
    with pytest.raises(ConfigurationError, match="cannot be read: Permission denied"):
        read_prober_file(path, strict=False)


def test_a_failing_read_is_refused(tmp_path, monkeypatch):
    def fails(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", fails)
    with pytest.raises(ConfigurationError, match="cannot be read: Permission denied"):
        read_prober_file(tmp_path / "file.yaml", strict=False)


def test_an_endless_file_is_not_read_to_its_end():
    with pytest.raises(ConfigurationError, match=f"is larger than {MAX_BYTES} bytes"):
        read_prober_file(Path("/dev/zero"), strict=False)


def test_a_byte_order_mark_does_no_harm(tmp_path):
    path = tmp_path / "file.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + file_with().encode())
    assert read_prober_file(path, strict=True).policy.kubeconfig_secret == "probe"


def test_a_file_of_the_greatest_size_is_refused_in_a_moment():
    deep = "[" * (MAX_BYTES - 1)
    assert mistakes(deep) == ["line 1: (file): is nested more than 20 deep"]
    wide = "- a\n" * (MAX_BYTES // 4)
    assert mistakes(wide) == ["line 20000: (file): stands for more than 20000 values"]


def test_messages_are_short_and_printable_whatever_the_file_holds():
    found = mistakes(file_with(onScaleUpFailure="x\x1b[31m" * 1000, **{"k" * 5000: 1}))
    assert all(len(each) < 400 and each.isprintable() for each in found)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["10s", "0s", "-1s", "apps/v1", "Deployment", "probe", "Stop", "1h", 0.5, 1])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=5) | st.sampled_from(tuple(keys_of(ScalePolicy))), inner, max_size=3
        )
    ),
    max_leaves=8,
)


def loads_or_is_refused(text):
    try:
        loaded = parse_prober(text, "file", strict=False)
    except ConfigurationError:
        return
    assert isinstance(loaded.policy, ProberPolicy)


@settings(deadline=None)  # the machine may be busy
@given(st.text())
def test_any_text_gives_a_policy_or_a_configuration_error(text):
    loads_or_is_refused(text)


@settings(deadline=None)  # the machine may be busy
@given(st.text(alphabet=":-[]{},&*!|>'\"%@`?#~<= \n\tab01.", max_size=60))
def test_any_yaml_like_text_gives_a_policy_or_a_configuration_error(text):
    loads_or_is_refused(text)
    loads_or_is_refused(file_with() + text)


@settings(deadline=None)  # the machine may be busy
@given(st.dictionaries(st.sampled_from(tuple(keys_of(ProberPolicy))), VALUES, max_size=4))
def test_any_values_give_a_policy_or_a_configuration_error(keys):
    loads_or_is_refused(file_with(**keys))


@settings(deadline=None)  # the machine may be busy
@given(
    st.dictionaries(st.sampled_from(tuple(keys_of(DependentPolicy))), VALUES),
    st.dictionaries(st.sampled_from(tuple(keys_of(ScalePolicy))), VALUES),
)
def test_any_dependents_give_a_policy_or_a_configuration_error(dependent, scaling):
    loads_or_is_refused(file_with(dependentResourceInfos=[dependent | {"scaleDown": scaling}]))
