{{/* What the container runs: a list. Only what differs from the program's own defaults is given. Takes a component. */}}
{{- define "dependency-watchdog.command" -}}
- /usr/local/bin/dependency-watchdog
- {{ .component }}
{{- $component := .component }}
{{- range .loops }}
{{- $flag := ternary "config-file" (printf "%s-config-file" .) (eq $component .) }}
- --{{ $flag }}={{ include "dependency-watchdog.configFolder" (dict "component" $component "loop" .) }}/dep-config.yaml
{{- end }}
{{- include "dependency-watchdog.ownFlags" . }}
{{- include "dependency-watchdog.commonFlags" . }}
{{- include "dependency-watchdog.apiFlags" . }}
{{- end -}}

{{/* The flags of the component's own values, by their names: kubeApiQps is --kube-api-qps. */}}
{{- define "dependency-watchdog.ownFlags" -}}
{{- range $name, $value := .settings.flags }}
{{- if kindIs "bool" $value }}
{{- if $value }}
- --{{ kebabcase $name }}
{{- end }}
{{- else if kindIs "string" $value }}
{{- /* "$(" would be the beginning of a variable in a command */}}
- {{ printf "--%s=%s" (kebabcase $name) (replace "$(" "$$(" $value) | quote }}
{{- else if not (kindIs "invalid" $value) }}
- --{{ kebabcase $name }}={{ toJson $value }}
{{- end }}
{{- end }}
{{- end -}}

{{/* What is the same for all components. */}}
{{- define "dependency-watchdog.commonFlags" -}}
{{- $values := .root.Values }}
{{- with $values.leaderElection }}
{{- if .enabled }}
- --enable-leader-election=true
{{- if ne .leaseDuration "15s" }}
- --leader-elect-lease-duration={{ .leaseDuration }}
{{- end }}
{{- if ne .renewDeadline "10s" }}
- --leader-elect-renew-deadline={{ .renewDeadline }}
{{- end }}
{{- if ne .retryPeriod "2s" }}
- --leader-elect-retry-period={{ .retryPeriod }}
{{- end }}
{{- end }}
{{- end }}
{{- if ne .root.Release.Namespace "garden" }}
- --leader-election-namespace={{ .root.Release.Namespace }}
{{- end }}
{{- if ne $values.logging.level "info" }}
- --log-level={{ $values.logging.level }}
{{- end }}
{{- if ne $values.logging.format "json" }}
- --log-format={{ $values.logging.format }}
{{- end }}
{{- if ne (int $values.ports.metrics) 9643 }}
- --metrics-bind-addr=:{{ int $values.ports.metrics }}
{{- end }}
{{- if ne (int $values.ports.health) 9644 }}
- --health-bind-addr=:{{ int $values.ports.health }}
{{- end }}
{{- if $values.metrics.auth }}
- --metrics-auth
{{- end }}
{{- if has "prober" .loops }}
{{- if ne $values.clusterDomain "cluster.local" }}
- --cluster-domain={{ $values.clusterDomain }}
{{- end }}
{{- if not $values.metrics.perShoot }}
- --per-shoot-metrics=false
{{- end }}
{{- end }}
{{- end -}}

{{/* Who may call the API, where it is, and what is said of it to others. */}}
{{- define "dependency-watchdog.apiFlags" -}}
{{- $values := .root.Values }}
{{- $api := $values.api }}
{{- if ne $api.auth.mode "kubernetes" }}
- --auth-mode={{ $api.auth.mode }}
{{- end }}
{{- if eq $api.auth.mode "token" }}
- --auth-token-file=/etc/dependency-watchdog/tokens/{{ $api.auth.tokenSecret.key }}
{{- end }}
{{- if include "dependency-watchdog.tlsSecret" .root }}
- --tls-cert-file=/etc/dependency-watchdog/tls/tls.crt
- --tls-private-key-file=/etc/dependency-watchdog/tls/tls.key
{{- end }}
{{- if $api.plainHttp }}
- --allow-plain-http
{{- end }}
{{- if ne (int $values.ports.api) 8080 }}
- --api-bind-addr=:{{ int $values.ports.api }}
{{- end }}
{{- with $api.trustedProxies }}
- --trusted-proxies={{ join "," . }}
{{- end }}
{{- with $api.cors.allowOrigins }}
- --cors-allow-origin={{ join "," . }}
{{- end }}
{{- if include "dependency-watchdog.leaderAddress" . }}
- --leader-endpointslice={{ include "dependency-watchdog.componentName" . }}-leader
{{- end }}
{{- include "dependency-watchdog.peerFlag" . }}
{{- end -}}

{{/* Where the other loop is: what the values say, or the Service of the other Deployment, if others can reach it. */}}
{{- define "dependency-watchdog.peerFlag" -}}
{{- $peer := get (dict "prober" "weeder" "weeder" "prober") .component }}
{{- if $peer }}
{{- $url := get .root.Values.api.urls $peer }}
{{- if and (not $url) (has $peer (include "dependency-watchdog.components" .root | fromJsonArray)) }}
{{- $url = include "dependency-watchdog.innerUrl" (dict "root" .root "component" $peer) }}
{{- end }}
{{- with $url }}
- --peer-url={{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* What a container of ours may do: the restricted Pod Security Standard, and a root file system that nobody writes. */}}
{{- define "dependency-watchdog.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Everybody of the group may read a Secret's files, as fsGroup needs it; nobody else. A key that others may read is refused. */}}
{{- define "dependency-watchdog.volumes" -}}
{{- $component := .component }}
{{- $root := .root }}
{{- range .loops }}
- name: {{ . }}-config
  configMap:
    name: {{ include "dependency-watchdog.configMapName" (dict "root" $root "loop" .) }}
{{- end }}
{{- with include "dependency-watchdog.tlsSecret" .root }}
- name: tls
  secret:
    secretName: {{ . | quote }}
    defaultMode: 0440
{{- end }}
{{- if eq .root.Values.api.auth.mode "token" }}
- name: tokens
  secret:
    secretName: {{ .root.Values.api.auth.tokenSecret.name | quote }}
    defaultMode: 0440
{{- end }}
{{- end -}}

{{- define "dependency-watchdog.volumeMounts" -}}
{{- $component := .component }}
{{- range .loops }}
- name: {{ . }}-config
  mountPath: {{ include "dependency-watchdog.configFolder" (dict "component" $component "loop" .) }}
  readOnly: true
{{- end }}
{{- if include "dependency-watchdog.tlsSecret" .root }}
- name: tls
  mountPath: /etc/dependency-watchdog/tls
  readOnly: true
{{- end }}
{{- if eq .root.Values.api.auth.mode "token" }}
- name: tokens
  mountPath: /etc/dependency-watchdog/tokens
  readOnly: true
{{- end }}
{{- end -}}

{{/* Where pods are put: what the values say, and apart from each other. */}}
{{- define "dependency-watchdog.affinity" -}}
{{- $found := deepCopy .settings.affinity -}}
{{- if and (not (hasKey $found "podAntiAffinity")) (ne .settings.antiAffinity "none") -}}
{{- $selector := dict "matchLabels" (include "dependency-watchdog.componentSelector" . | fromYaml) -}}
{{- $term := dict "labelSelector" $selector "topologyKey" "kubernetes.io/hostname" -}}
{{- if eq .settings.antiAffinity "hard" -}}
{{- $_ := set $found "podAntiAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (list $term)) -}}
{{- else -}}
{{- $wish := dict "weight" 100 "podAffinityTerm" $term -}}
{{- $_ := set $found "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" (list $wish)) -}}
{{- end -}}
{{- end -}}
{{- with $found }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{- define "dependency-watchdog.spread" -}}
{{- $own := dict "matchLabels" (include "dependency-watchdog.componentSelector" . | fromYaml) -}}
{{- $found := list -}}
{{- range .settings.topologySpreadConstraints -}}
{{- $found = append $found (merge (deepCopy .) (hasKey . "labelSelector" | ternary (dict) (dict "labelSelector" $own))) -}}
{{- end -}}
{{- with $found }}{{ toYaml . }}{{ end -}}
{{- end -}}
