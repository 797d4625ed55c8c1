{{/* Whether the watchdog itself is well. */}}
{{- define "dependency-watchdog.alerts.process" -}}
DWDDown:
  # Of a target that is away `up` is 0; where there is none at all, absent() is.
  expr: |
    {{- range $number, $loop := .loops }}
    {{- if $number }}
    or
    {{- end }}
    label_replace(
      (max by ({{ $.bySeed }}) (up{ {{- .sel -}} }) == 0) or absent(up{ {{- .sel -}} }),
      "loop", {{ .name | quote }}, "", ""
    )
    {{- end }}
  summary: "No process of the dependency watchdog's [[ $labels.loop ]] can be scraped"
  description: >-
    Not one replica of the [[ $labels.loop ]] answers on its metrics port, or Prometheus has no target for it. If it is really
    away, nothing protects the shoots of this seed (prober), or nothing restarts pods that wait (weeder).
DWDNoLeader:
  expr: |
    sum by ({{ .seed }}name) (leader_election_master_status{ {{- .sel -}} }) == 0
  summary: "No replica of the dependency watchdog holds the Lease [[ $labels.name ]]"
  description: >-
    Replicas run, and none of them leads, so nothing is scaled (prober), or no pod is restarted (weeder). They can probably
    not read or write the Lease [[ $labels.name ]].
DWDMultipleLeaders:
  expr: |
    sum by ({{ .seed }}name) (leader_election_master_status{ {{- .sel -}} }) > 1
  summary: "[[ $value ]] replicas of the dependency watchdog say that they hold the Lease [[ $labels.name ]]"
  description: >-
    For longer than a hand-over takes, [[ $value ]] processes lead by the same Lease. There are two installations, or two seeds
    that these rules cannot tell apart.
DWDRunnerFailures:
  expr: |
    sum by ({{ .seed }}loop) (increase(dwd_runner_failures_total{ {{- .sel -}} }[15m])) > {{ .rules.DWDRunnerFailures.failures }}
  summary: "Something in the dependency watchdog's [[ $labels.loop ]] failed unexpectedly"
  description: >-
    What serves [[ if eq $labels.loop "prober" ]]one shoot[[ else if eq $labels.loop "weeder" ]]one recovery[[ else ]]the streams of the
    API[[ end ]] failed in a way that nobody foresaw, and was started again; in the last 15 minutes: [[ $value | printf "%.0f" ]]. The log
    has the traceback[[ if ne $labels.loop "events" ]] and the namespace[[ end ]].
DWDLoopLag:
  expr: |
    histogram_quantile(
      0.99,
      sum by ({{ .seed }}job, instance, pod, le) (rate(dwd_event_loop_lag_seconds_bucket{ {{- .sel -}} }[5m]))
    ) > {{ .rules.DWDLoopLag.seconds }}
  summary: "The dependency watchdog [[ or $labels.pod $labels.instance ]] is late by [[ $value | humanizeDuration ]]"
  description: >-
    One timer in a hundred comes back [[ $value | humanizeDuration ]] late, or later than that. From the first verdict to the loss of
    nodes there are 4 to 9 seconds: it probably has too little CPU.
DWDClockSkew:
  expr: |
    max by ({{ .seed }}job, instance, pod) (abs(dwd_clock_skew_seconds{ {{- .sel -}} })) > {{ .rules.DWDClockSkew.seconds }}
  summary: "The clock of the dependency watchdog [[ or $labels.pod $labels.instance ]] is [[ $value | humanizeDuration ]] off"
  description: >-
    It differs by [[ $value | humanizeDuration ]] from that of the seed's API server. Verdicts do not depend on it; pauses and
    holds end too early or too late.
{{- end -}}
