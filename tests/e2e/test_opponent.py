"""The real kube-controller-manager against 20 nodes that are cut off: with the watchdog it marks none of them.

A cut of all nodes and one of 80 % with the watchdog, at random phases, and one of each without it, which shows that the
opponent bites. `test_kwok` cuts off 1,000; `make opponent` plays many more, and prints the table of `docs/opponent.md`.
"""

import os
import random

import pytest

from tests.e2e.opponent import manager_in
from tests.e2e.opponent_play import ALL, LIMIT, MOST, PHASES, SIZE, Outcome, play
from tests.e2e.parallel import scenario
from tests.e2e.stage import Stage

found = manager_in(os.environ.get("KUBEBUILDER_ASSETS"))
if found is None:
    # before the scenarios are collected: one that is skipped later would be played all the same
    pytest.skip(
        "kube-controller-manager is not beside kube-apiserver: KUBEBUILDER_ASSETS="
        "$(hack/kube-assets etcd kube-apiserver kube-controller-manager)",
        allow_module_level=True,
    )
MANAGER = found


async def outcome(stage: Stage, share: float, *, protected: bool) -> Outcome:
    phase = random.uniform(0, PHASES)
    result = await play(stage, MANAGER, share=share, protected=protected, phase=phase)
    stage.figure(", ".join(f"{name} {figure}" for name, figure in result.figures().items()))
    return result


async def no_node_is_marked(stage: Stage, share: float) -> None:
    result = await outcome(stage, share, protected=True)
    outage, recovery = result.outage, result.recovery
    assert (outage.marked, outage.evictions) == (0, 0), result
    assert outage.gone is not None, "the process was gone"
    assert (recovery.marked, recovery.all_clean) == (0, True), result


@scenario(limit=LIMIT)
async def test_no_node_is_marked_when_all_are_cut_off(stage: Stage) -> None:
    await no_node_is_marked(stage, ALL)


@scenario(limit=LIMIT)
async def test_no_node_is_marked_when_80_percent_are_cut_off(stage: Stage) -> None:
    await no_node_is_marked(stage, MOST)


@scenario(limit=LIMIT)
async def test_without_us_all_nodes_end_unknown_and_unschedulable(stage: Stage) -> None:
    result = await outcome(stage, ALL, protected=False)
    assert (result.outage.unknown, result.outage.tainted) == (SIZE, SIZE)


@scenario(limit=LIMIT)
async def test_without_us_80_percent_end_unknown_and_pods_are_evicted(stage: Stage) -> None:
    outage = (await outcome(stage, MOST, protected=False)).outage
    assert (outage.unknown, outage.tainted) == (outage.nodes, outage.nodes)
    assert outage.evicting >= 1
    assert outage.evictions >= 1
