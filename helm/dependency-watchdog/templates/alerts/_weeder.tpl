{{/* What the weeder does, and does not. */}}
{{- define "dependency-watchdog.alerts.weeder" -}}
DWDWeederDeletionSpike:
  expr: |
    sum by ({{ .seed }}service) (
      increase(dwd_weeder_pod_deletions_total{result="deleted", {{ .sel -}} }[10m])
    ) > {{ .rules.DWDWeederDeletionSpike.deletions }}
  summary: "The weeder deleted [[ $value | printf \"%.0f\" ]] pods that wait for [[ $labels.service ]]"
  description: >-
    In the last 10 minutes [[ $value | printf "%.0f" ]] pods that depend on [[ $labels.service ]] were deleted. Many control planes
    lost that service and got it back, or a selector matches more than it should.
DWDWeederSelectorMatchesNothing:
  # Without a control plane that runs there is nothing to match. A weeder without a prober beside it does not know.
  expr: |
    max by ({{ .seed }}service, selector) (dwd_weeder_selector_matches{ {{- .sel -}} }) == 0
    unless on ({{ .bySeed }})
    sum by ({{ .bySeed }}) (max by ({{ .seed }}state) (dwd_shoots{state!="NotProbed", {{ .sel -}} })) == 0
  summary: "Selector [[ $labels.selector ]] of [[ $labels.service ]] matches no pod"
  description: >-
    For an hour no pod in the whole seed has matched selector [[ $labels.selector ]] (counted from 0) of the weeder's service
    [[ $labels.service ]]. A label was probably renamed, and what depends on that service is not restarted any more.
{{- end -}}
