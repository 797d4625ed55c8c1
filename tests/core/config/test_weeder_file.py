"""The weeder file: what loads, what is refused with which words, and that nothing else ever happens."""

import itertools
from pathlib import Path
from types import MappingProxyType

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.core.config.policy_files import (
    file_kind,
    parse_prober,
    parse_weeder,
    read_weeder_file,
    useless_selector,
)
from app.core.config.values import FileKind
from app.core.config.yaml_file import keys_of
from app.core.errors import ConfigurationError
from app.core.model.names import LabelSelector, Operator, Requirement
from app.core.model.weeding import WeederPolicy

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[2]
GARDENER = HERE / "weeder/good/gardener.yaml"
SELECTOR = "servicesAndDependantSelectors.etcd.podSelectors[0]"


def mistakes(text, *, strict=True):
    with pytest.raises(ConfigurationError) as caught:
        parse_weeder(text, "file", strict=strict)
    return [str(each) for each in caught.value.mistakes]


def file_with(*selectors, **keys):
    """A file in YAML with one service; `keys` at the top."""
    chosen = list(selectors) or [{"matchLabels": {"role": "apiserver"}}]
    services = {"etcd": {"podSelectors": chosen}}
    return yaml.safe_dump({"servicesAndDependantSelectors": services} | keys)


def selector_of(*requirements):
    return LabelSelector(
        tuple(
            Requirement(key, operator, frozenset(values)) for key, operator, *values in requirements
        )
    )


def selectors_in(path):
    policy = read_weeder_file(HERE / f"weeder/good/{path}.yaml", strict=False).policy
    return {service: [str(each) for each in found] for service, found in policy.services.items()}


def test_the_file_that_gardener_deploys_means_what_it_says():
    loaded = read_weeder_file(GARDENER, strict=True)
    control_plane = ("gardener.cloud/role", Operator.IN, "controlplane")
    assert loaded.warnings == ()
    assert loaded.policy == WeederPolicy(
        services={
            "etcd-main-client": (selector_of(control_plane, ("role", Operator.IN, "apiserver")),),
            "kube-apiserver": (
                selector_of(control_plane, ("role", Operator.NOT_IN, "main", "apiserver")),
            ),
        },
        watch_duration=300.0,
    )


def test_the_example_has_every_key_at_its_default_and_the_services_of_gardener():
    path = REPOSITORY / "config/weeder.yaml"
    loaded = read_weeder_file(path, strict=True)
    gardener = read_weeder_file(GARDENER, strict=True).policy
    assert loaded.warnings == ()
    assert loaded.policy == WeederPolicy(gardener.services)
    assert set(yaml.safe_load(path.read_text())) == set(keys_of(WeederPolicy))


def test_keys_match_whatever_their_case_while_services_and_labels_do_not():
    policy = read_weeder_file(HERE / "weeder/good/keys-in-other-cases.yaml", strict=True).policy
    assert (policy.watch_duration, policy.max_deletions_per_workload) == (90.0, 7)
    assert (policy.min_backoff_remaining, policy.weed_bare_pods) == (0.0, True)
    (selector,) = policy.services["etcd-main-client"]
    assert selector == selector_of(
        ("Role", Operator.IN, "apiserver"),
        ("role", Operator.IN, "API"),
        ("app", Operator.NOT_IN, "", "a_b.C-9"),
    )


def test_null_is_the_same_as_absent():
    assert selectors_in("nulls-and-empty-lists") == {
        "etcd-main-client": ["role=apiserver", "a/b,!c"]
    }


def test_the_services_cannot_be_changed_once_they_are_read():
    services = parse_weeder(file_with(), "file", strict=True).policy.services
    assert isinstance(services, MappingProxyType)


REQUIREMENT = {"key": "role", "operator": "Exists", "value": "a"}


@pytest.mark.parametrize(
    ("selector", "mistake"),
    [
        ({"matchLabel": {"role": "a"}}, ("line 4", "matchLabel", "matchLabels")),
        ({"matchExpressions": [REQUIREMENT]}, ("line 7", "matchExpressions[0].value", "values")),
    ],
    ids=["of a selector", "of a requirement"],
)
def test_an_unknown_key_stops_it_where_more_pods_than_meant_would_match(selector, mistake):
    line, key, near = mistake
    message = f"unknown key; the nearest known key is {near}"
    found = mistakes(file_with(selector), strict=False)
    assert found == [f"{line}: {SELECTOR}.{key}: {message}"]


def test_services_that_differ_by_case_only_are_two_of_which_one_is_wrong():
    selectors = {"podSelectors": [{"matchLabels": {"a": "b"}}]}
    text = yaml.safe_dump({"servicesAndDependantSelectors": {"etcd": selectors, "Etcd": selectors}})
    (found,) = mistakes(text)
    assert "servicesAndDependantSelectors.Etcd: must be the name of a Service" in found


@pytest.mark.parametrize("key", ["watchDuration", "SERVICESanddependantselectors"])
def test_a_weeder_file_is_known_by_its_keys(key):
    assert file_kind(f"{key}: 5m", "file") is FileKind.WEEDER


@pytest.mark.parametrize(
    "text",
    ["", "- watchDuration", "kubeConfigSecretName: a", "watchDuration:", "x: {watchDuration: 5m}"],
)
def test_every_other_file_is_taken_for_the_probers(text):
    assert file_kind(text, "file") is FileKind.PROBER


def test_a_prober_file_with_a_key_of_the_weeder_is_a_prober_file_still():
    text = (REPOSITORY / "config/prober.yaml").read_text() + "watchDuration: 5m\n"
    (warning,) = parse_prober(text, "file", strict=False).warnings
    assert warning.path == "watchDuration"


def test_a_great_file_is_read_in_a_moment():
    selector = {"matchLabels": {"role": "apiserver", "app": "a"}}
    services = {f"service-{n}": {"podSelectors": [selector]} for n in range(1000)}
    text = yaml.dump(
        {"servicesAndDependantSelectors": services}, Dumper=yaml.CSafeDumper, sort_keys=False
    )
    assert len(parse_weeder(text, "file", strict=True).policy.services) == 1000
    wide = file_with({"matchLabels": {f"label-{n}": "x" for n in range(6000)}})
    assert parse_weeder(wide, "file", strict=True).warnings == ()


def test_messages_are_short_and_printable_whatever_the_file_holds():
    junk = "x\x1b[31m" * 1000
    selector = {"matchLabels": {junk: junk}, "matchExpressions": [{"key": junk, "operator": junk}]}
    found = mistakes(file_with(selector, **{"k" * 5000: 1}))
    assert len(found) == 5
    assert all(len(each) < 400 and each.isprintable() for each in found)
    values = [f"value-{n}" for n in range(1000)]
    contradiction = [
        {"key": "role", "operator": "In", "values": values},
        {"key": "role", "operator": "DoesNotExist"},
    ]
    (warning,) = parse_weeder(
        file_with({"matchExpressions": contradiction}), "file", strict=True
    ).warnings
    assert len(str(warning)) < 400


LABELS = st.sampled_from(["a", "b"])
REQUIREMENTS = st.builds(
    Requirement,
    LABELS,
    st.sampled_from([Operator.IN, Operator.NOT_IN]),
    st.frozensets(st.sampled_from("xyz"), min_size=1),
) | st.builds(Requirement, LABELS, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST]))
VALUES = (None, "x", "y", "z", "something else")
"""Of one label; no value means that the pod does not have it."""
PODS = [
    {key: value for key, value in zip("ab", values, strict=True) if value is not None}
    for values in itertools.product(VALUES, repeat=2)
]


@given(st.lists(REQUIREMENTS, min_size=1, max_size=5))
def test_a_selector_contradicts_itself_exactly_where_no_pod_could_match(requirements):
    selector = LabelSelector(tuple(requirements))
    warned = useless_selector(selector) is not None
    assert warned == (not any(selector.matches(labels) for labels in PODS))
