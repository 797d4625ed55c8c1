{{/* What comes between us and API servers. */}}
{{- define "dependency-watchdog.alerts.requests" -}}
{{- $refused := printf "dwd_credentials_rejected_total{reason!=\"no-token\", %s}" .sel -}}
{{- $limit := .rules.DWDCredentialsRejected.rejections -}}
DWDThrottled:
  # Of the seed a share, as one server answers all. Of shoots a number: what one of them refuses is nothing among the requests to
  # all. One that is throttled at every probe is Failing, of which DWDShootFailing tells.
  expr: |
    (
      sum by ({{ .seed }}host) (rate(dwd_throttled_requests_total{host="seed", {{ .sel -}} }[10m]))
      /
      sum by ({{ .seed }}host) (rate(rest_client_requests_total{host="seed", {{ .sel -}} }[10m]))
      > {{ .rules.DWDThrottled.fraction }}
    )
    and
    sum by ({{ .seed }}host) (increase(dwd_throttled_requests_total{host="seed", {{ .sel -}} }[10m])) > {{ .rules.DWDThrottled.requests }}
    or
    sum by ({{ .seed }}host) (increase(dwd_throttled_requests_total{host="shoot", {{ .sel -}} }[10m])) > {{ .rules.DWDThrottled.shootRequests }}
  summary: >-
    [[ if eq $labels.host "seed" ]][[ $value | humanizePercentage ]] of the requests to the API server of the seed get 429[[ else ]]API
    servers of shoots answered 429 [[ $value | printf "%.0f" ]] times in 10 minutes[[ end ]]
  description: >-
    [[ if eq $labels.host "seed" ]][[ $value | humanizePercentage ]] of the dependency watchdog's requests to the API server of the seed
    are answered 429: it sees and scales later.[[ else ]]In the last 10 minutes API servers of shoots answered 429
    [[ $value | printf "%.0f" ]] times. After that nothing is scaled in such a shoot until the next probe.[[ end ]]
DWDWatchFlapping:
  # What is forbidden or not served is retried for ever; DWDPermissionsMissing and DWDDependentUnavailable tell of that. Each recovery has its own watch of
  # pods, for minutes: together they say nothing about one watch.
  expr: |
    sum by ({{ .seed }}job, instance, pod, kind) (
      increase(dwd_watch_restarts_total{kind!="pods", reason!~"Forbidden|NotFound", {{ .sel -}} }[30m])
    ) > {{ .rules.DWDWatchFlapping.restarts }}
  summary: "The watch of [[ $labels.kind ]] broke [[ $value | printf \"%.0f\" ]] times in 30 minutes"
  description: >-
    The watch of [[ $labels.kind ]] in [[ or $labels.pod $labels.instance ]] had to be opened again
    [[ $value | printf "%.0f" ]] times in 30 minutes. While it is broken the watchdog reads live what it needs, or waits.
DWDCredentialsRejected:
  # A refusal is counted once for each content of a Secret; at the start of a process before anybody scrapes, when the series begins
  # with it. A shoot that stays without credentials is Failing, of which DWDShootFailing tells. A token that is not there yet is in
  # order, in a control plane that is being made.
  expr: |
    sum by ({{ .seed }}reason) (increase({{ $refused }}[15m])) > {{ $limit }}
    or
    sum by ({{ .seed }}reason) ({{ $refused }} unless {{ $refused }} offset 15m) > {{ $limit }}
  summary: "A shoot's kubeconfig was refused ([[ $labels.reason ]])"
  description: >-
    Kubeconfigs with something in them that the watchdog does not use ([[ $labels.reason ]]): [[ $value | printf "%.0f" ]]. Such a
    shoot is not probed. Either its Secret is broken, or somebody tries to make the watchdog do something.
DWDResponseLimitHit:
  expr: |
    sum by ({{ .seed }}limit) (increase(dwd_response_limit_hits_total{ {{- .sel -}} }[1h])) > {{ .rules.DWDResponseLimitHit.hits }}
  summary: "[[ $value | printf \"%.0f\" ]] answers of API servers were cut off ([[ $labels.limit ]])"
  description: >-
    In the last hour [[ $value | printf "%.0f" ]] answers were beyond the limit of [[ $labels.limit ]], and thrown away. A shoot
    that answers so is not probed: it is very large, very slow, or hostile.
{{- end -}}
