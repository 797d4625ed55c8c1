{{/* What is seen of shoots. */}}
{{- define "dependency-watchdog.alerts.probes" -}}
{{- $byShoot := printf "%snamespace" .seed -}}
{{- $lastProbe := printf "max by (%s) (dwd_shoot_last_probe_timestamp_seconds{%s}" $byShoot .sel -}}
{{- $byProcess := printf "%sjob, instance, pod" .seed -}}
DWDClustersUnread:
  # No shoot is known then: there is no share of shoots, and none is Pending. Every prober has the first series; one that is no
  # standby acts, also without an election. The last one begins with the first page of Clusters and stays while the process does.
  # One alert for each seed, which goes on when the leadership changes hands.
  expr: |
    count by ({{ .bySeed }}) (
      max by ({{ $byProcess }}) (dwd_probers_active{ {{- .sel -}} })
      unless
      max by ({{ $byProcess }}) (leader_election_master_status{name="dwd-prober-leader-election", {{ .sel -}} }) == 0
      unless
      max by ({{ $byProcess }}) (dwd_watch_last_contact_timestamp_seconds{kind="clusters", {{ .sel -}} })
    )
  summary: "The dependency watchdog cannot read the Clusters: no shoot of the seed is protected"
  description: >-
    Since its start the prober that acts could not list clusters.extensions.gardener.cloud of the seed, so it knows of no shoot: none
    is probed, and none is protected.
DWDProbesStalled:
  # It has not moved: no clock has to agree with another one for that. A shoot that is gone, or not probed, has no series; one
  # that was never probed is Pending, and has that label.
  expr: |
    (
      (time() - {{ $lastProbe }}))
      and
      ({{ $lastProbe }}) == {{ $lastProbe }} offset {{ .rules.DWDProbesStalled.seconds }}s))
    )
    or on ({{ $byShoot }})
    {{ .rules.DWDProbesStalled.seconds }} * (
      max by ({{ $byShoot }}, state) (dwd_shoot_state{state="Pending", {{ .sel -}} })
      and
      max by ({{ $byShoot }}, state) (dwd_shoot_state{state="Pending", {{ .sel -}} } offset {{ .rules.DWDProbesStalled.seconds }}s)
    )
  summary: "[[ $labels.namespace ]] [[ if $labels.state ]]was never probed[[ else ]]is no longer probed[[ end ]]"
  description: >-
    [[ if $labels.state ]]No probe of the shoot of [[ $labels.namespace ]] has ended yet, for [[ $value | humanizeDuration ]] or
    longer.[[ else ]]The last probe of the shoot of [[ $labels.namespace ]] ended [[ $value | humanizeDuration ]] ago.[[ end ]] While
    that is so it is not protected, and if it is protected it does not come back.
DWDProbeErrorsHigh:
  expr: |
    {{- include "dependency-watchdog.alerts.blind" (list . .rules.DWDProbeErrorsHigh.fraction) | nindent 4 }}
  summary: "Probes fail at [[ $value | humanizePercentage ]] of the shoots"
  description: >-
    [[ $value | humanizePercentage ]] of the probed shoots are Unreachable or Failing: their API servers do not answer, or not as
    they should. What cannot be probed is not scaled.
  steps:
    most:
      # So many shoots as well: on a small seed a single one, that is being made or mended, is more than half of all.
      expr: |
        {{- include "dependency-watchdog.alerts.blind" (list . .rules.DWDProbeErrorsHigh.most.fraction) | nindent 8 }}
        and
        {{- include "dependency-watchdog.alerts.unseen" . | nindent 8 }}
        >= {{ .rules.DWDProbeErrorsHigh.most.shoots }}
      summary: "Probes fail at [[ $value | humanizePercentage ]] of the shoots: the seed is without protection"
      description: >-
        [[ $value | humanizePercentage ]] of the probed shoots are Unreachable or Failing, which is no trouble of single shoots: the
        network of the seed, its DNS, or the credentials of all. If nodes are cut off now, nothing is scaled.
DWDShootFailing:
  # Not Unreachable: that is an API server that is away, as in a shoot that is being made or mended.
  expr: |
    max by ({{ $byShoot }}) (dwd_shoot_state{state="Failing", {{ .sel -}} }) > 0
  summary: "[[ $labels.namespace ]] cannot be probed"
  description: >-
    The API server of [[ $labels.namespace ]] is there, and all the same probes fail: credentials, certificates, throttling, or answers
    that make no sense. The shoot is not protected, and if it is protected it does not come back.
DWDLeasesLate:
  # The leases of a shoot that cannot be read now are those of its last reading.
  expr: |
    (
      {{- include "dependency-watchdog.alerts.leases" (list . "expired") | nindent 6 }}
      /
      {{- include "dependency-watchdog.alerts.leases" (list . "fresh|expired|unknown") | nindent 6 }}
      > {{ .rules.DWDLeasesLate.fraction }}
    )
    unless on ({{ $byShoot }})
    dwd_shoot_protection_start_timestamp_seconds{ {{- .sel -}} }
    unless on ({{ $byShoot }})
    dwd_shoot_state{state=~"Unreachable|Failing", {{ .sel -}} }
  summary: "[[ $value | humanizePercentage ]] of the node leases of [[ $labels.namespace ]] are late"
  description: >-
    [[ $value | humanizePercentage ]] of the nodes that count in [[ $labels.namespace ]] do not renew their leases, and the shoot
    is not protected: too few for that, or something holds it back.
DWDEndpointProbeFailing:
  # For so long at the same control plane, and not here and there while pods are replaced.
  expr: |
    count by ({{ .seed }}name) (
      (
        max by ({{ $byShoot }}, name) (
          max_over_time(dwd_endpoint_probe_success{ {{- .sel -}} }[{{ .rules.DWDEndpointProbeFailing.minutes }}m])
        ) == 0
      )
      and
      max by ({{ $byShoot }}, name) (
        present_over_time(dwd_endpoint_probe_success{ {{- .sel -}} }[5m] offset {{ .rules.DWDEndpointProbeFailing.minutes }}m)
      )
    ) > {{ .rules.DWDEndpointProbeFailing.controlPlanes }}
  summary: "The endpoint probe [[ $labels.name ]] fails in [[ $value ]] control planes"
  description: >-
    In so many control planes the endpoint probe [[ $labels.name ]] has not succeeded for a while: [[ $value ]]. If its effect is
    GateScaleDown, no scale-down starts there.
DWDScaleDownGated:
  # Enough leases are late, or the external path does not answer, and nothing protects the shoot while a gate fails. A shoot with
  # one node is never scaled down.
  expr: |
    count by ({{ .bySeed }}) (
      (
        (
          (
            {{- include "dependency-watchdog.alerts.leases" (list . "expired") | nindent 12 }}
            /
            {{- include "dependency-watchdog.alerts.leases" (list . "fresh|expired|unknown") | nindent 12 }}
            >= {{ .rules.DWDScaleDownGated.fraction }}
            and
            {{- include "dependency-watchdog.alerts.leases" (list . "fresh|expired|unknown") | nindent 12 }}
            > 1
          )
          or
          (
            {{- include "dependency-watchdog.alerts.attempts" (list . "external") | nindent 12 }}
            > {{ .rules.DWDScaleDownGated.failures }}
          )
        )
        and on ({{ $byShoot }})
        min by ({{ $byShoot }}) (dwd_endpoint_probe_success{name=~{{ .rules.DWDScaleDownGated.probes | quote }}, {{ .sel -}} }) == 0
      )
      unless on ({{ $byShoot }})
      dwd_shoot_protection_start_timestamp_seconds{ {{- .sel -}} }
      unless on ({{ $byShoot }})
      dwd_shoot_state{state=~"Unreachable|Failing", {{ .sel -}} }
    ) > 0
  summary: "A gate keeps [[ $value ]] shoots from being protected"
  description: >-
    Shoots whose nodes look cut off, and that are not scaled while an endpoint probe fails that gates: [[ $value ]]. Either the seed
    itself is blind, and that is right, or the probe is wrong, and these shoots are about to lose healthy nodes.
{{- end -}}

{{/* The share of the probed shoots that cannot be probed, where it is above this one. */}}
{{- define "dependency-watchdog.alerts.blind" -}}
{{- $context := index . 0 -}}
{{ include "dependency-watchdog.alerts.unseen" $context }}
/
sum by ({{ $context.bySeed }}) (max by ({{ $context.seed }}state) (dwd_shoots{state!="NotProbed", {{ $context.sel -}} }))
> {{ index . 1 }}
{{- end -}}

{{/* How many shoots cannot be probed. */}}
{{- define "dependency-watchdog.alerts.unseen" -}}
sum by ({{ .bySeed }}) (max by ({{ .seed }}state) (dwd_shoots{state=~"Unreachable|Failing", {{ .sel -}} }))
{{- end -}}

{{/* How many candidate leases of each shoot are in one of these states. */}}
{{- define "dependency-watchdog.alerts.leases" -}}
{{- $context := index . 0 -}}
sum by ({{ $context.seed }}namespace) (
  max by ({{ $context.seed }}namespace, state) (dwd_shoot_node_leases{state=~"{{ index . 1 }}", {{ $context.sel -}} })
)
{{- end -}}

{{/* How many attempts on one of these paths failed within five minutes; in endpoint mode only. */}}
{{- define "dependency-watchdog.alerts.attempts" -}}
{{- $context := index . 0 -}}
round(
  sum by ({{ $context.seed }}namespace) (
    increase(dwd_shoot_probe_failures_total{probe=~"{{ index . 1 }}", {{ $context.sel -}} }[5m])
  )
)
{{- end -}}
