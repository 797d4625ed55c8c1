{{/* What comes between us and API servers. */}}
{{- define "dependency-watchdog.alerts.requests" -}}
{{- $refused := printf "dwd_credentials_rejected_total{reason!=\"no-token\", %s}" .sel -}}
{{- $limit := .rules.DWDCredentialsRejected.rejections -}}
DWDThrottled:
  expr: |
    (
      sum by ({{ .seed }}host) (rate(dwd_throttled_requests_total{ {{- .sel -}} }[10m]))
      /
      sum by ({{ .seed }}host) (rate(rest_client_requests_total{ {{- .sel -}} }[10m]))
      > {{ .rules.DWDThrottled.fraction }}
    )
    and
    sum by ({{ .seed }}host) (increase(dwd_throttled_requests_total{ {{- .sel -}} }[10m])) > {{ .rules.DWDThrottled.requests }}
  summary: "[[ $value | humanizePercentage ]] of the requests to the API server of the [[ $labels.host ]] get 429"
  description: >-
    [[ $value | humanizePercentage ]] of the dependency watchdog's requests to the API server of the [[ $labels.host ]] are answered
    429. After a 429 of a shoot nothing is scaled there until the next look.
DWDWatchFlapping:
  # What is forbidden or not served is retried for ever; DWDPermissionsMissing tells of that.
  expr: |
    sum by ({{ .seed }}job, instance, pod, kind) (
      increase(dwd_watch_restarts_total{reason!~"Forbidden|NotFound", {{ .sel -}} }[30m])
    ) > {{ .rules.DWDWatchFlapping.restarts }}
  summary: "The watch of [[ $labels.kind ]] broke [[ $value | printf \"%.0f\" ]] times in 30 minutes"
  description: >-
    The watch of [[ $labels.kind ]] in [[ or $labels.pod $labels.instance ]] had to be opened again
    [[ $value | printf "%.0f" ]] times in 30 minutes. While it is broken the watchdog reads live what it needs, or waits.
DWDCredentialsRejected:
  # A refusal is counted once for each content of a Secret, at a start before anybody scrapes: so it stays for a day, as long as
  # a shoot is Failing. A token that is not there yet is in order, in a control plane that is being made.
  expr: |
    sum by ({{ .seed }}reason) (increase({{ $refused }}[15m])) > {{ $limit }}
    or
    (
      (
        sum by ({{ .seed }}reason) (increase({{ $refused }}[1d])) > {{ $limit }}
        or
        sum by ({{ .seed }}reason) ({{ $refused }} unless {{ $refused }} offset 1d) > {{ $limit }}
      )
      and on ({{ .bySeed }})
      sum by ({{ .bySeed }}) (max by ({{ .seed }}state) (dwd_shoots{state="Failing", {{ .sel -}} })) > 0
    )
  summary: "A shoot's kubeconfig was refused ([[ $labels.reason ]])"
  description: >-
    Kubeconfigs with something in them that the watchdog does not use ([[ $labels.reason ]]): [[ $value | printf "%.0f" ]]. Such a
    shoot is not looked at. Either its Secret is broken, or somebody tries to make the watchdog do something.
DWDResponseLimitHit:
  expr: |
    sum by ({{ .seed }}limit) (increase(dwd_response_limit_hits_total{ {{- .sel -}} }[1h])) > {{ .rules.DWDResponseLimitHit.hits }}
  summary: "[[ $value | printf \"%.0f\" ]] answers of API servers were cut off ([[ $labels.limit ]])"
  description: >-
    In the last hour [[ $value | printf "%.0f" ]] answers were beyond the limit of [[ $labels.limit ]], and thrown away. A shoot
    that answers so is not looked at: it is very large, very slow, or hostile.
{{- end -}}
