"""The Lease as the API server has it: what of it is read, and how old it is by the server's own clock."""

import json
from typing import Any, cast

import pytest

from app.core.kube.election import LeaseStore

STAMPED = 1_800_000_000.0  # 2027-01-15T08:00:00Z
SPEC = {"holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 3}


class Server:
    """Answers with one object, and says what time it is."""

    def __init__(self, managed, now: float | None = STAMPED + 20.5):
        metadata = {"name": "x", "resourceVersion": "7"}
        if managed != "left out":
            metadata["managedFields"] = managed
        self.body = {"kind": "Lease", "metadata": metadata, "spec": SPEC}
        self.server_time = now

    async def call(self, _request, decode, _budget, *, new_connection):
        del new_connection
        return decode(json.dumps(self.body).encode())


async def age(*arguments):
    store = LeaseStore(cast("Any", Server(*arguments)), "garden", "x")
    found = await store.read(1.0)
    assert found is not None
    assert (found.holder, found.duration, found.transitions) == ("a", 15.0, 3)
    return found.age


def stamp(text):
    return {"manager": "dwd", "operation": "Update", "time": text}


async def test_its_age_is_the_servers_time_less_the_servers_stamp():
    assert await age([stamp("2027-01-15T08:00:00Z")]) == 20.5


async def test_of_several_that_wrote_it_the_last_counts():
    assert await age([stamp("2027-01-15T08:00:10Z"), stamp("2027-01-15T07:00:00Z")]) == 10.5


@pytest.mark.parametrize(
    "managed",
    ["left out", None, [], [{"manager": "dwd"}], [stamp(None)], [stamp("yesterday")]],
    ids=str,
)
async def test_where_no_stamp_says_so_its_age_is_not_known(managed):
    assert await age(managed) is None


async def test_before_the_server_said_what_time_it_is_its_age_is_not_known():
    assert await age([stamp("2027-01-15T08:00:00Z")], None) is None
