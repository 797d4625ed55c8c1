{{/* What people decided, and who may. */}}
{{- define "dependency-watchdog.alerts.people" -}}
{{- $hours := .rules.DWDOverrideLongLived.hours -}}
{{- $expiry := printf "max by (%snamespace, kind) (dwd_override_expiry_timestamp_seconds{kind!=\"invalid\", %s})" .seed .sel -}}
{{- $ignored := printf "max by (%skind) (dwd_overrides_active{kind=\"ignore-scaling\", %s}) > 0" .seed .sel -}}
DWDOverrideLongLived:
  # Counted every ten minutes for an hour more than the limit: a change of leader does not hide an override.
  expr: |
    (count_over_time(({{ $expiry }})[{{ add $hours 1 }}h:10m]) > {{ $hours }} * 6 + 1 and {{ $expiry }})
    or
    (count_over_time(({{ $ignored }})[{{ add $hours 1 }}h:10m]) > {{ $hours }} * 6 + 1 and {{ $ignored }})
  summary: "The override [[ $labels.kind ]][[ with $labels.namespace ]] of [[ . ]][[ end ]] is older than {{ $hours }} hours"
  description: >-
    For more than {{ $hours }} hours [[ $labels.kind ]][[ with $labels.namespace ]] of [[ . ]][[ end ]] has kept the watchdog's hands
    off, renewed or not. Perhaps it was forgotten.
DWDOverridesInvalid:
  expr: |
    max by ({{ .bySeed }}) (dwd_overrides_active{kind="invalid", {{ .sel -}} }) > 0
  summary: "Overrides that cannot be read: [[ $value ]]"
  description: >-
    Keys of the ConfigMap dependency-watchdog-overrides with a mistake: [[ $value ]]. Each pauses its shoot for an hour, or until
    the end that it had before; the key _all pauses every shoot of the seed.
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
  expr: |
    max by ({{ .seed }}job, verb, resource) (
      dwd_missing_permissions{
        {{- with .rules.DWDPermissionsMissing.exceptResources }}resource!~{{ . | quote }}, {{ end }}{{ .sel -}} }
    ) > 0
  summary: "The dependency watchdog may not [[ $labels.verb ]] [[ $labels.resource ]]"
  description: >-
    The seed's RBAC does not let [[ $labels.job ]] [[ $labels.verb ]] [[ $labels.resource ]], which its configuration needs. Without
    patch on the dependents nothing is protected; without others a feature is off.
{{- end -}}
