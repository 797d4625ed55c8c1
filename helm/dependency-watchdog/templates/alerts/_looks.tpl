{{/* What is seen of shoots. */}}
{{- define "dependency-watchdog.alerts.looks" -}}
{{- $byShoot := printf "%snamespace" .seed -}}
{{- $lastLook := printf "max by (%s) (dwd_shoot_last_probe_timestamp_seconds{%s}" $byShoot .sel -}}
DWDProbesStalled:
  # It has not moved: no clock has to agree with another one for that. A shoot that is gone, or not probed, has no series; one
  # that never had a look is Pending.
  expr: |
    (
      (time() - {{ $lastLook }}))
      and
      ({{ $lastLook }}) == {{ $lastLook }} offset {{ .rules.DWDProbesStalled.seconds }}s))
    )
    or
    {{ .rules.DWDProbesStalled.seconds }} * (
      max by ({{ $byShoot }}) (dwd_shoot_state{state="Pending", {{ .sel -}} })
      and
      max by ({{ $byShoot }}) (dwd_shoot_state{state="Pending", {{ .sel -}} } offset {{ .rules.DWDProbesStalled.seconds }}s)
    )
  summary: "[[ $labels.namespace ]] is not looked at any more"
  description: >-
    The last look at the shoot of [[ $labels.namespace ]] ended [[ $value | humanizeDuration ]] ago. While that is so it is not
    protected, and if it is protected it does not come back.
DWDProbeErrorsHigh:
  expr: |
    sum by ({{ .bySeed }}) (max by ({{ .seed }}state) (dwd_shoots{state=~"Unreachable|Failing", {{ .sel -}} }))
    /
    sum by ({{ .bySeed }}) (max by ({{ .seed }}state) (dwd_shoots{state!="NotProbed", {{ .sel -}} }))
    > {{ .rules.DWDProbeErrorsHigh.fraction }}
  summary: "Looks fail at [[ $value | humanizePercentage ]] of the shoots"
  description: >-
    [[ $value | humanizePercentage ]] of the probed shoots are Unreachable or Failing: their API servers do not answer, or not as
    they should. What cannot be looked at is not scaled.
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
{{- end -}}

{{/* How many candidate leases of each shoot are in one of these states. */}}
{{- define "dependency-watchdog.alerts.leases" -}}
{{- $context := index . 0 -}}
sum by ({{ $context.seed }}namespace) (
  max by ({{ $context.seed }}namespace, state) (dwd_shoot_node_leases{state=~"{{ index . 1 }}", {{ $context.sel -}} })
)
{{- end -}}
