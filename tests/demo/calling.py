"""Calls the demo with the client that was generated from the document: `python calling.py BASE`, the client beside it.

Writes what came of it as JSON.  It knows nothing of our program.
"""

import json
import sys

from generated_client import Client, models
from generated_client.api.audit import list_audit
from generated_client.api.config import read_config, set_log_level
from generated_client.api.flows import list_operations, read_operation, scale_shoot
from generated_client.api.overrides import end_hold, pause_shoot, resume_shoot
from generated_client.api.resources import list_resources
from generated_client.api.shoots import (
    list_history,
    list_nodes,
    list_shoots,
    probe_shoot,
    read_shoot,
)
from generated_client.api.status import read_status
from generated_client.api.weeders import list_weeders


def called(module, *args, **more):
    """The answer, as the class that the document says it is."""
    answer = module.sync_detailed(*args, client=client, **more)
    name = module.__name__.rpartition(".")[2]
    calls[name] = [answer.status_code.value, type(answer.parsed).__name__]
    return answer.parsed


calls: dict[str, object] = {}
found: dict[str, object] = {"calls": calls}
with Client(base_url=sys.argv[1]) as client:
    status = called(read_status)
    found["role"] = status.role
    shoots = called(list_shoots, sort=models.ShootOrder.NAME, limit=1)
    found["total"] = shoots.metadata.total
    namespace = shoots.items[0].namespace
    shoot = called(read_shoot, namespace)
    found["state"] = [type(shoot.state).__name__, shoot.state.value]
    found["resources"] = sorted(each.name for each in shoot.resources)
    found["lease"] = type(called(list_nodes, namespace).items[0].lease).__name__
    found["entry"] = type(called(list_history, namespace).items[0].type_).__name__
    called(list_resources, namespace)
    called(probe_shoot, namespace)
    called(list_weeders)
    found["log level"] = called(read_config).log_level.value
    called(set_log_level, body=models.LogLevelOrder(level=models.LogLevel.INFO))

    order = models.PauseOrder(reason="from a generated client", duration="10m")
    pause = called(pause_shoot, namespace, body=order)
    found["pause"] = [pause.scope.value, pause.reason, pause.author]
    found["paused"] = called(read_shoot, namespace).pause.reason
    called(resume_shoot, namespace)
    found["resumed"] = called(read_shoot, namespace).pause

    plan = models.ScaleOrder(direction=models.Direction.DOWN, reason="a plan", dry_run=True)
    steps = [
        step for level in called(scale_shoot, namespace, body=plan).levels for step in level.steps
    ]
    found["plan"] = sorted({type(each.action).__name__ for each in steps})
    up = models.ScaleOrder(direction=models.Direction.UP, reason="by hand")
    operation = called(scale_shoot, namespace, body=up)
    found["trigger"] = called(read_operation, operation.id).trigger.value
    found["operations"] = operation.id in [each.id for each in called(list_operations).items]
    called(end_hold, namespace)
    found["audited"] = sorted({each.action for each in called(list_audit).items})

    missing = called(read_operation, "of-nobody")
    found["problem"] = [missing.type_, missing.status]
json.dump(found, sys.stdout)
