{{/* What people decided, and who may. */}}
{{- define "dependency-watchdog.alerts.people" -}}
{{- $features := "events|pauses|pauses/status|scalerequests|scalerequests/status|tokenreviews|subjectaccessreviews|pods/exec" -}}
{{- $limits := .rules.DWDOverrideLongLived -}}
{{- $expiry := printf "max by (%snamespace, kind) (dwd_override_expiry_timestamp_seconds{kind=~\"%%s\", %s})" .seed .sel -}}
{{- $ofAll := printf $expiry "global-pause" -}}
{{- $ofOne := printf $expiry "pause|hold" -}}
{{- $ignored := printf "max by (%skind) (dwd_overrides_active{kind=\"ignore-scaling\", %s}) > 0" .seed .sel -}}
DWDShootUnprotected:
  # Without the series of each shoot there is a number alone.
  expr: |
    max by ({{ .seed }}namespace) (dwd_shoot_state{state="Unprotected", {{ .sel -}} }) > 0
    or on ({{ .bySeed }})
    max by ({{ .bySeed }}) (dwd_shoots{state="Unprotected", {{ .sel -}} }) > 0
  summary: >-
    [[ if $labels.namespace ]][[ $labels.namespace ]] is cut off and somebody keeps it from being protected[[ else ]]Shoots are cut
    off and somebody keeps them from being protected: [[ $value ]][[ end ]]
  description: >-
    The nodes of [[ if $labels.namespace ]][[ $labels.namespace ]][[ else ]]so many shoots ([[ $value ]])[[ end ]] do not reach their
    API server, and its controllers run: a pause, a hold or ignore-scaling keeps them from being scaled down. Healthy nodes are
    marked NotReady and their machines deleted, now.
DWDOverrideLongLived:
  # Counted for a while longer than the limit: a change of leader does not hide an override. A pause of all shoots is counted every
  # minute, all else every ten. Without the series of each shoot the pause of all and ignore-scaling are left. Of the latter there
  # is a number alone, so nobody knows whether it is about the same dependents all the time.
  expr: |
    (count_over_time(({{ $ofAll }})[{{ add $limits.allMinutes 20 }}m:1m]) > {{ $limits.allMinutes }} + 1 and {{ $ofAll }})
    or
    (count_over_time(({{ $ofOne }})[{{ add $limits.hours 1 }}h:10m]) > {{ $limits.hours }} * 6 + 1 and {{ $ofOne }})
    or
    (count_over_time(({{ $ignored }})[{{ add $limits.ignoredHours 1 }}h:10m]) > {{ $limits.ignoredHours }} * 6 + 1 and {{ $ignored }})
  summary: >-
    [[ if eq $labels.kind "global-pause" ]]All shoots have been paused for more than {{ $limits.allMinutes }} minutes[[ else if
    $labels.namespace ]]The override [[ $labels.kind ]] of [[ $labels.namespace ]] is older than {{ $limits.hours }} hours[[ else ]]Some
    dependent has had [[ $labels.kind ]] for {{ $limits.ignoredHours }} hours, perhaps not the same all the time[[ end ]]
  description: >-
    [[ if eq $labels.kind "global-pause" ]]For more than {{ $limits.allMinutes }} minutes a pause has kept the watchdog's hands off
    all shoots, renewed or not: none of them is protected.[[ else if $labels.namespace ]]For more than {{ $limits.hours }} hours
    [[ $labels.kind ]] of [[ $labels.namespace ]] has kept the watchdog's hands off, renewed or not.[[ else ]]For more than
    {{ $limits.ignoredHours }} hours [[ $labels.kind ]] has kept the watchdog's hands off somewhere in the seed, perhaps not of the same
    dependents all the time.[[ end ]] Perhaps it was forgotten.
DWDOverridesInvalid:
  expr: |
    max by ({{ .bySeed }}) (dwd_overrides_active{kind="invalid", {{ .sel -}} }) > 0
  summary: "Overrides that cannot be read: [[ $value ]]"
  description: >-
    Pauses and ScaleRequests that this version of the watchdog cannot read: [[ $value ]]. Such a Pause pauses its shoot, with scope
    all, until 24 hours after its creation, or every shoot of the seed if it is in the watchdog's own namespace. Such a ScaleRequest
    is not carried out.
DWDAuthDenials:
  expr: |
    sum by ({{ .seed }}decision) (
      increase(dwd_auth_decisions_total{decision=~"denied|unauthenticated", {{ .sel -}} }[15m])
    ) > {{ .rules.DWDAuthDenials.denials }}
  summary: "[[ $value | printf \"%.0f\" ]] calls of the dependency watchdog's API were refused ([[ $labels.decision ]])"
  description: >-
    In the last 15 minutes [[ $value | printf "%.0f" ]] calls were refused because of who called: [[ $labels.decision ]]. A token
    has run out, a right is missing, or somebody tries.
DWDPermissionsMissing:
  # Pods are those of the weeder, and of endpoint probes: which of the two, the job says. The address of the leader needs get and update of its EndpointSlice; the weeder lists and watches those of services.
  expr: |
    {{- include "dependency-watchdog.alerts.lacking" (list . (printf "resource!~\"%s|endpointslices\"" $features)) | nindent 4 }}
    or
    {{- include "dependency-watchdog.alerts.lacking" (list . "resource=\"endpointslices\", verb!~\"get|update\"") | nindent 4 }}
  summary: "The dependency watchdog may not [[ $labels.verb ]] [[ $labels.resource ]]"
  description: >-
    The seed's RBAC does not let [[ $labels.job ]] [[ $labels.verb ]] [[ $labels.resource ]], which its configuration needs. Without
    it shoots are not protected, nobody leads, or pods that wait are not restarted.
  steps:
    features:
      expr: |
        {{- include "dependency-watchdog.alerts.lacking" (list . (printf "resource=~\"%s\"" $features)) | nindent 8 }}
        or
        {{- include "dependency-watchdog.alerts.lacking" (list . "resource=\"endpointslices\", verb=~\"get|update\"") | nindent 8 }}
      summary: "A feature is off: the dependency watchdog may not [[ $labels.verb ]] [[ $labels.resource ]]"
      description: >-
        The seed's RBAC does not let [[ $labels.job ]] [[ $labels.verb ]] [[ $labels.resource ]]. Shoots are protected all the same, but
        without that there are no Events, no pauses, no scaling by hand, no callers that the seed knows, no address of the leader, or no exec
        probes.
{{- end -}}

{{/* The rights that are missing, for these matchers. */}}
{{- define "dependency-watchdog.alerts.lacking" -}}
{{- $context := index . 0 -}}
max by ({{ $context.seed }}job, verb, resource) (
  dwd_missing_permissions{ {{- index . 1 }}, {{ with $context.rules.DWDPermissionsMissing.exceptResources }}resource!~{{ . | quote }}, {{ end }}{{ $context.sel -}} }
) > 0
{{- end -}}
