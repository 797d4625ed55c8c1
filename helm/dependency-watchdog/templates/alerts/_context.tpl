{{/*
What the alerts are written with. Their expressions and texts are in the files beside this one: each defines a map from the
name of an alert to its `expr`, `summary` and `description`. In texts `[[ … ]]` is what Prometheus fills in.

sel: matchers of every series. bySeed, seed: the labels that tell seeds apart, alone and in front of others. rules: the values.
loops: what DWDDown looks for. A standby has no series of shoots, and `dwd_shoots` of it are 0: so `max` over the processes is
what the leader says, also while the leader before is still remembered.
*/}}
{{- define "dependency-watchdog.alerts.context" -}}
{{- $alerts := .Values.alerts -}}
{{- $name := include "dependency-watchdog.fullname" . -}}
{{- $more := $alerts.selector | empty | ternary "" (printf ", %s" $alerts.selector) -}}
{{- $bySeed := join ", " $alerts.seedLabels -}}
{{- $jobs := dict -}}
{{- range $loop, $suffix := dict "prober" "prober" "weeder" "weeder" "serve" "serve" "all" "(prober|weeder|serve)" -}}
{{- $built := printf "%s-%s" $name $suffix -}}
{{- $_ := set $jobs $loop (printf "job=~\"%s\"%s" (get $alerts.jobs $loop | default $built) $more) -}}
{{- end -}}
{{- $loops := list -}}
{{- range $loop := include "dependency-watchdog.components" . | fromJsonArray -}}
{{- $loops = append $loops (dict "name" $loop "sel" (get $jobs $loop)) -}}
{{- end -}}
bySeed: {{ $bySeed | quote }}
seed: {{ $bySeed | empty | ternary "" (printf "%s, " $bySeed) | quote }}
sel: {{ $jobs.all | quote }}
loops: {{ $loops | toJson }}
rules: {{ $alerts.rules | toJson }}
{{- end -}}

{{/* The groups, in their order. */}}
{{- define "dependency-watchdog.alerts.groups" -}}
[process, looks, protection, weeder, people, requests]
{{- end -}}

{{/* The alerts that need the series of each shoot: without metrics.perShoot there are none of them. */}}
{{- define "dependency-watchdog.alerts.perShoot" -}}
[DWDProbesStalled, DWDLeasesLate, DWDStuckScaledDown, DWDFlapping, DWDOverrideLongLived]
{{- end -}}

{{/* The names of the alerts that there are, with what is left out; fails where one is wanted that cannot be. */}}
{{- define "dependency-watchdog.alerts.names" -}}
{{- $perShoot := include "dependency-watchdog.alerts.perShoot" . | fromYamlArray -}}
{{- $there := list -}}
{{- $leftOut := list -}}
{{- range $name, $rule := .Values.alerts.rules -}}
{{- $blind := and (has $name $perShoot) (not $.Values.metrics.perShoot) -}}
{{- if and $blind $rule.enabled -}}
{{- fail (printf "alerts.rules.%s.enabled: %s needs the metrics of each shoot, and metrics.perShoot is false" $name $name) -}}
{{- else if $blind -}}
{{- $leftOut = append $leftOut $name -}}
{{- else if ne $rule.enabled false -}}
{{- $there = append $there $name -}}
{{- end -}}
{{- end -}}
{{- dict "there" $there "leftOut" (sortAlpha $leftOut) | toJson -}}
{{- end -}}

{{/* One alert as Prometheus reads it: of its name, what is defined of it, its values, and the values of all. */}}
{{- define "dependency-watchdog.alerts.rule" -}}
{{- $labels := merge (dict "severity" .rule.severity) (deepCopy .alerts.alertLabels) -}}
{{- $url := printf "%s#%s" (.alerts.runbookUrl | replace "{version}" .version) (lower .name) -}}
{{- $annotations := dict "runbook_url" $url -}}
{{- range $key := list "summary" "description" -}}
{{- $_ := set $annotations $key (get $.found $key | replace "[[" "{{" | replace "]]" "}}") -}}
{{- end -}}
alert: {{ .name }}
expr: |
  {{- .found.expr | trim | nindent 2 }}
for: {{ .rule.for }}
labels:
  {{- toYaml $labels | nindent 2 }}
annotations:
  {{- toYaml $annotations | nindent 2 }}
{{- end -}}
