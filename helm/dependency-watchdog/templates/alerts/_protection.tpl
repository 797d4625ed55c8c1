{{/* What is done about it. */}}
{{- define "dependency-watchdog.alerts.protection" -}}
{{- $byShoot := printf "%snamespace" .seed -}}
{{- $age := printf "time() - min by (%s) (dwd_shoot_protection_start_timestamp_seconds{%s})" $byShoot .sel -}}
{{- $runs := "sum by (%s) (increase(dwd_shoot_scale_attempts_total{direction=\"%s\", %s}[1h]))" -}}
DWDMeltdownProtectionActive:
  expr: |
    {{ $age }} > 60 * {{ .rules.DWDMeltdownProtectionActive.minutes }}
  summary: "[[ $labels.namespace ]] has been protected for [[ $value | humanizeDuration ]]"
  description: >-
    The nodes of [[ $labels.namespace ]] do not reach their API server, so its controllers are at 0, and no healthy machine is
    deleted. Find what is broken between the two. A shoot that is not probed any more stays so until somebody scales it up.
DWDMeltdownProtectionTooLong:
  expr: |
    {{ $age }} > 60 * {{ .rules.DWDMeltdownProtectionTooLong.minutes }}
  summary: "[[ $labels.namespace ]] has been protected for [[ $value | humanizeDuration ]], which is too long"
  description: >-
    For [[ $value | humanizeDuration ]] nobody has replaced broken nodes in [[ $labels.namespace ]], added any, or taken note of
    those that are gone. Decide whether its controllers have to come back although its nodes have not.
DWDSeedWideMeltdown:
  expr: |
    sum by ({{ .bySeed }}) (max by ({{ .seed }}state) (dwd_shoots{state=~"Protecting|Protected", {{ .sel -}} }))
      >= {{ .rules.DWDSeedWideMeltdown.shoots }}
    and
    sum by ({{ .bySeed }}) (max by ({{ .seed }}state) (dwd_shoots{state=~"Protecting|Protected", {{ .sel -}} }))
      / sum by ({{ .bySeed }}) (max by ({{ .seed }}state) (dwd_shoots{state!="NotProbed", {{ .sel -}} }))
      > {{ .rules.DWDSeedWideMeltdown.fraction }}
  summary: "[[ $value ]] shoots of one seed are protected at once"
  description: >-
    The nodes of [[ $value ]] shoots cannot reach their API servers. What they have in common is the seed: its load balancers,
    its network, its zone.
DWDScaleErrors:
  expr: |
    sum by ({{ .seed }}direction, resource) (
      increase(dwd_scale_operations_total{result="failed", {{ .sel -}} }[15m])
    ) > {{ .rules.DWDScaleErrors.failures }}
  summary: "[[ $labels.resource ]] cannot be scaled [[ $labels.direction ]]"
  description: >-
    In the last 15 minutes [[ $labels.resource ]] could not be scaled [[ $labels.direction ]], in this seed
    [[ $value | printf "%.0f" ]] times. On the way down that is a shoot without protection, on the way up one without its controllers.
DWDDependentUnavailable:
  # Known before it is needed: the failures that it would lead to come with the outage.
  expr: |
    max by ({{ .seed }}resource) (dwd_dependents_unavailable{ {{- .sel -}} }) > 0
  summary: "[[ $labels.resource ]] is out of reach: no shoot's can be scaled"
  description: >-
    The seed does not serve the kind of [[ $labels.resource ]], or does not let the dependency watchdog list it. In an outage it stays as
    it is in every shoot, while all other dependents are scaled.
DWDStuckScaledDown:
  # Of a shoot that is not probed (hibernated, in deletion) or unreachable, leases and counters say nothing: what there is of them
  # is old, and a counter that stands still is no path that answers.
  # In endpoint mode an attempt that fails is a hiccup, several in five minutes are a path that does not answer.
  expr: |
    max by ({{ $byShoot }}) (dwd_shoot_dependents_at_zero{ {{- .sel -}} })
    and on ({{ $byShoot }})
    (
      (
        {{- include "dependency-watchdog.alerts.leases" (list . "expired|unknown") | nindent 8 }}
        /
        {{- include "dependency-watchdog.alerts.leases" (list . "fresh|expired|unknown") | nindent 8 }}
        < {{ .rules.DWDStuckScaledDown.fraction }}
      )
      or
      (
        {{- include "dependency-watchdog.alerts.attempts" (list . "internal|external") | nindent 8 }}
        <= {{ .rules.DWDStuckScaledDown.failures }}
      )
    )
    unless on ({{ $byShoot }})
    dwd_shoot_state{state=~"Unreachable|NotProbed", {{ .sel -}} }
  summary: "Controllers of [[ $labels.namespace ]] are at 0 although its nodes are fine: [[ $value ]]"
  description: >-
    The nodes of [[ $labels.namespace ]] reach their API server, and all the same so many of its controllers are at 0: [[ $value ]]. A
    pause, a hold, ignore-scaling or a failure keeps them there, or somebody scaled them and forgot.
DWDFlapping:
  # Down, up, down, up, down: so many scale-downs begun, and one scale-up less, are that many changes of mind at least, whether
  # the scaling runs succeed or not. One that fails and is begun again in one direction has no counterpart in the other one.
  expr: |
    (round({{ printf $runs $byShoot "down" .sel }}) > {{ .rules.DWDFlapping.changes }} / 2)
    and
    (round({{ printf $runs $byShoot "up" .sel }}) > ({{ .rules.DWDFlapping.changes }} - 1) / 2)
  summary: "[[ $labels.namespace ]]: [[ $value ]] scale-downs were begun within an hour, and scale-ups in between"
  description: >-
    Within an hour [[ $value ]] scale-downs of [[ $labels.namespace ]] were begun, whether they succeeded or not, and scale-ups in
    between. The path between its nodes and its API server comes and goes, or somebody scales against the watchdog.
{{- end -}}
