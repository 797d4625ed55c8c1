"""Which objects label and field selectors choose."""

import pytest

from app.core.errors import Invalid
from app.simulation.server.catalog import ServedResource
from app.simulation.server.reading import chooser

PODS = ServedResource("", "v1", "pods", "Pod")
POD = {"metadata": {"name": "a", "namespace": "ns", "labels": {"app": "x", "role": "db"}}}
BARE = {"metadata": {"name": "b", "namespace": "ns"}}


@pytest.mark.parametrize(
    ("labels", "pod", "bare"),
    [
        ("", True, True),
        ("app=x", True, False),
        ("app==x", True, False),
        ("app = x", True, False),
        ("app=y", False, False),
        ("app!=x", False, True),
        ("app", True, False),
        ("!app", False, True),
        ("app in (x, y)", True, False),
        ("app notin (x)", False, True),
        ("app in (x,y),role=db", True, False),
        ("app=x,role!=db", False, False),
        ("app=", False, False),
        ("! role", False, True),
        ("app in(x)", True, False),
        ("app in ()", False, False),
        ("app notin ()", True, True),
        ("app in (y,),role", False, False),
    ],
)
def test_a_label_selector_chooses_as_kubernetes_does(labels, pod, bare):
    chooses = chooser(labels, "", PODS)
    assert (chooses(POD), chooses(BARE)) == (pod, bare)


@pytest.mark.parametrize(
    ("fields", "pod", "bare"),
    [
        ("metadata.name=a", True, False),
        ("metadata.name!=a", False, True),
        ("metadata.namespace=ns", True, True),
        ("metadata.name=a,metadata.namespace=other", False, False),
    ],
)
def test_a_field_selector_chooses_by_name_and_namespace(fields, pod, bare):
    chooses = chooser("", fields, PODS)
    assert (chooses(POD), chooses(BARE)) == (pod, bare)


@pytest.mark.parametrize(
    ("labels", "fields"),
    [
        *[(labels, "") for labels in ("a b c", "app in x", "app in (x", "app in (x y)", "app,")],
        *[(labels, "") for labels in (",app", "app=-x", "-app", "A/b/c", "a>5", f"a={'x' * 64}")],
        *[("", fields) for fields in ("spec.nodeName=a", "metadata.name")],
    ],
)
def test_a_selector_that_cannot_be_understood_is_refused(labels, fields):
    with pytest.raises(Invalid) as caught:
        chooser(labels, fields, PODS)
    assert caught.value.status == 400
