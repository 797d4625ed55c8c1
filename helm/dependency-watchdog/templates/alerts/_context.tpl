{{/*
What the alerts are written with. Their expressions and texts are in the files beside this one: each defines a map from the
name of an alert to its `expr`, `summary` and `description`. In texts `[[ … ]]` is what Prometheus fills in. `steps` are more rules
of the same name, each with the severity, the patience and the limits that the values have under the name of the step.

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
rules: {{ include "dependency-watchdog.alerts.limits" . }}
{{- end -}}

{{/*
The values of the rules, as JSON, with what follows from the prober's configuration where they say null. A probe is late after three
intervals, and not before an interval with a whole time-out and a wait after 429 is over; two minutes at least. In endpoint mode an
interval may be as long as the back-off.
*/}}
{{- define "dependency-watchdog.alerts.limits" -}}
{{- $rules := deepCopy .Values.alerts.rules -}}
{{- $config := .Values.prober.config -}}
{{- $interval := include "dependency-watchdog.alerts.seconds" ($config.probeInterval | default "10s") | int64 -}}
{{- if include "dependency-watchdog.endpointMode" . -}}
{{- $backoff := $config.internalProbeFailureBackoffDuration -}}
{{- $backoff = kindIs "invalid" $backoff | ternary "30s" (toString $backoff) -}}
{{- $interval = max $interval ($backoff | include "dependency-watchdog.alerts.seconds" | int64) -}}
{{- end -}}
{{- $timeout := include "dependency-watchdog.alerts.seconds" ($config.probeTimeout | default "30s") | int64 -}}
{{- if kindIs "invalid" $rules.DWDProbesStalled.seconds -}}
{{- $_ := set $rules.DWDProbesStalled "seconds" (max 120 (mul 3 $interval) (add $interval $timeout 60)) -}}
{{- end -}}
{{- if kindIs "invalid" $rules.DWDStuckScaledDown.fraction -}}
{{- $_ := set $rules.DWDStuckScaledDown "fraction" ($config.nodeLeaseFailureFraction | default 0.6) -}}
{{- end -}}
{{- if kindIs "invalid" $rules.DWDScaleDownGated.fraction -}}
{{- $_ := set $rules.DWDScaleDownGated "fraction" ($config.nodeLeaseFailureFraction | default 0.6) -}}
{{- end -}}
{{- if not $rules.DWDScaleDownGated.probes -}}
{{- $_ := set $rules.DWDScaleDownGated "probes" (include "dependency-watchdog.gates" . | default ".+") -}}
{{- end -}}
{{- $rules | toJson -}}
{{- end -}}

{{/* The names of the endpoint probes that can keep a scale-down from starting, as a regular expression. */}}
{{- define "dependency-watchdog.gates" -}}
{{- $names := list -}}
{{- range .Values.prober.config.endpointProbes -}}
{{- if eq (.effect | default "Observe") "GateScaleDown" }}{{ $names = append $names .name }}{{ end -}}
{{- end -}}
{{- $names | sortAlpha | join "|" -}}
{{- end -}}

{{/* A Go duration in seconds, rounded up. */}}
{{- define "dependency-watchdog.alerts.seconds" -}}
{{- div (add (include "dependency-watchdog.microseconds" . | int64) 999999) 1000000 -}}
{{- end -}}

{{/* The groups, in their order. */}}
{{- define "dependency-watchdog.alerts.groups" -}}
[process, probes, protection, weeder, people, requests]
{{- end -}}

{{/* The alerts that need the series of each shoot: without metrics.perShoot there are none of them. */}}
{{- define "dependency-watchdog.alerts.perShoot" -}}
[DWDProbesStalled, DWDShootFailing, DWDLeasesLate, DWDEndpointProbeFailing, DWDScaleDownGated, DWDStuckScaledDown, DWDFlapping]
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
