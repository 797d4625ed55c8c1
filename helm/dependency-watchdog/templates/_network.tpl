{{/* Where the prober goes beside that: the external path of endpoint mode, and what endpoint probes are aimed at. */}}
{{- define "dependency-watchdog.endpointEgress" -}}
{{- $rules := list -}}
{{- with .Values.networkPolicy.external -}}
{{- if include "dependency-watchdog.endpointMode" $ -}}
{{- $rules = append $rules (include "dependency-watchdog.egress" (dict "ports" .ports "to" .to) | fromJson) -}}
{{- end -}}
{{- end -}}
{{- $given := .Values.networkPolicy.endpointProbes -}}
{{- $hosts := list -}}
{{- range .Values.prober.config.endpointProbes -}}
{{- $port := (.httpGet | default .tcpSocket | default .grpc | default dict).port -}}
{{- if kindIs "invalid" $port -}}
{{- else if kindIs "invalid" .podSelector -}}
{{- $hosts = append $hosts $port -}}
{{- else -}}
{{- $peer := dict "namespaceSelector" $given.namespaces "podSelector" .podSelector -}}
{{- $rules = append $rules (include "dependency-watchdog.egress" (dict "ports" (list $port) "to" (list $peer)) | fromJson) -}}
{{- end -}}
{{- end -}}
{{- if $hosts -}}
{{- $ports := concat $hosts ($given.ports | default list) -}}
{{- $rules = append $rules (include "dependency-watchdog.egress" (dict "ports" $ports "to" $given.to) | fromJson) -}}
{{- end -}}
{{- with $rules }}{{ uniq . | toYaml }}{{ end -}}
{{- end -}}

{{/* A rule, as JSON; without `to` it leads everywhere. */}}
{{- define "dependency-watchdog.egress" -}}
{{- $ports := list -}}
{{- range uniq .ports }}{{ $ports = append $ports (dict "port" .) }}{{ end -}}
{{- $rule := dict "ports" $ports -}}
{{- with .to }}{{ $_ := set $rule "to" . }}{{ end -}}
{{- $rule | toJson -}}
{{- end -}}
