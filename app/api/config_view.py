"""What is configured, in the words of the command line and of the files; pure.

Flags name files, and never have what is in them: no secret can be shown that way.
"""

from app.api import schemas
from app.api.probeconfig import probe
from app.api.selecting import selector
from app.core.config.durations import format_duration
from app.core.config.flags import flag_name
from app.core.config.settings import ServiceSettings
from app.core.config.usage import shown_type
from app.core.model.policy import DependentPolicy, ProberPolicy, ScalePolicy
from app.core.model.shoots import Route
from app.core.model.weeding import WeederPolicy
from app.core import redaction


def flags(settings: ServiceSettings) -> dict[str, schemas.FlagValue]:
    """Each flag, and its value: given, or the default."""
    fields = type(settings).model_fields
    return {
        flag_name(name): _flag(getattr(settings, name), shown_type(field))
        for name, field in fields.items()
    }


def _flag(value: object, kind: str) -> schemas.FlagValue:
    match value:
        case None | bool():
            return value
        case int() | float() if kind == "DURATION":
            return format_duration(value)
        case int() | float():
            return value
        case list() | tuple() | set() | frozenset():
            return [redaction.clean(str(each)) for each in value]
        case _:
            return redaction.clean(str(value))


def prober(policy: ProberPolicy) -> schemas.ProberFile:
    """The prober file as it is in force, defaults included."""
    most, mode, secrets = policy.max_protection, policy.endpoint_mode, policy.secret_names
    backoff = None if mode is None else format_duration(mode.internal_failure_backoff)
    return schemas.ProberFile(
        kube_config_secret_name=secrets[Route.INTERNAL] if mode is None else None,
        internal_kube_config_secret_name=None if mode is None else secrets[Route.INTERNAL],
        external_kube_config_secret_name=secrets.get(Route.EXTERNAL),
        internal_probe_failure_backoff_duration=backoff,
        probe_interval=format_duration(policy.probe_interval),
        initial_delay=format_duration(policy.initial_delay),
        probe_timeout=format_duration(policy.probe_timeout),
        backoff_jitter_factor=policy.jitter,
        kcm_node_monitor_grace_duration=format_duration(policy.grace),
        node_lease_failure_fraction=policy.limit,
        failure_threshold=policy.failure_threshold,
        success_threshold=policy.success_threshold,
        suspect_probe_interval=format_duration(policy.suspect_interval),
        max_protection_duration=None if most is None else format_duration(most),
        on_scale_down_failure=policy.on_scale_down_failure,
        on_scale_up_failure=policy.on_scale_up_failure,
        endpoint_probes=[probe(each) for each in policy.endpoint_probes],
        dependent_resource_infos=[_dependent(each) for each in policy.dependents],
    )


def _dependent(policy: DependentPolicy) -> schemas.DependentResourceInfo:
    return schemas.DependentResourceInfo(
        ref=schemas.Ref(**policy.ref._asdict()),
        optional=policy.optional,
        scale_up=_scale(policy.scale_up),
        scale_down=_scale(policy.scale_down),
    )


def _scale(policy: ScalePolicy) -> schemas.ScaleInfo:
    return schemas.ScaleInfo(
        level=policy.level,
        initial_delay=format_duration(policy.initial_delay),
        timeout=format_duration(policy.timeout),
    )


def weeder(policy: WeederPolicy) -> schemas.WeederFile:
    """The weeder file as it is in force, defaults included."""
    return schemas.WeederFile(
        watch_duration=format_duration(policy.watch_duration),
        services_and_dependant_selectors={
            name: schemas.PodSelectors(pod_selectors=[selector(each) for each in selectors])
            for name, selectors in policy.services.items()
        },
        max_deletions_per_workload=policy.max_deletions_per_workload,
        min_backoff_remaining=format_duration(policy.min_backoff_remaining),
        weed_bare_pods=policy.weed_bare_pods,
    )
