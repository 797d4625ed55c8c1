{{/* The name of the chart, or what nameOverride says. */}}
{{- define "dependency-watchdog.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 39 | trimSuffix "-" -}}
{{- end -}}

{{/*
What all names begin with: the release, or release-name where the release is not named after the chart.
At most 39 characters: the name of a pod, <fullname>-prober-<10>-<5>, has to fit into the 63 of a host name, which a leader
is known by. A release may have dots in its name, a Service may not.
*/}}
{{- define "dependency-watchdog.fullname" -}}
{{- $name := include "dependency-watchdog.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 39 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | replace "." "-" | trunc 39 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | replace "." "-" | trunc 39 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels that a Deployment selects its pods by, without the component. */}}
{{- define "dependency-watchdog.selectorLabels" -}}
app.kubernetes.io/name: {{ include "dependency-watchdog.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* Labels of every object. */}}
{{- define "dependency-watchdog.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "dependency-watchdog.selectorLabels" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | trimAll "-_." | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: gardener
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/*
A component is a Deployment with what belongs to it: prober, weeder or serve. These templates take a context of one:
  root: the chart's own context;  component: its name;  settings: its values;  loops: which loops it runs;  name: of its objects
*/}}
{{- define "dependency-watchdog.components" -}}
{{- $values := .Values -}}
{{- $found := list -}}
{{- if eq $values.mode "serve" -}}
{{- $found = list "serve" -}}
{{- else -}}
{{- range list "prober" "weeder" -}}
{{- if (index $values .).enabled }}{{ $found = append $found . }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $found | toJson -}}
{{- end -}}

{{- define "dependency-watchdog.loops" -}}
{{- ternary (list "prober" "weeder") (list .) (eq . "serve") | toJson -}}
{{- end -}}

{{- define "dependency-watchdog.componentName" -}}
{{- printf "%s-%s" (include "dependency-watchdog.fullname" .root) .component -}}
{{- end -}}

{{- define "dependency-watchdog.componentSelector" -}}
{{ include "dependency-watchdog.selectorLabels" .root }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "dependency-watchdog.componentLabels" -}}
{{ include "dependency-watchdog.labels" .root }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "dependency-watchdog.serviceAccountName" -}}
{{- index .root.Values.serviceAccount.names .component | default (include "dependency-watchdog.componentName" .) -}}
{{- end -}}

{{- define "dependency-watchdog.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository ($image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* Whether the API is served to others: then it has Services. Otherwise it is on 127.0.0.1 of each pod. */}}
{{- define "dependency-watchdog.tlsSecret" -}}
{{- with .Values.api.tls -}}
{{- if .secretName -}}
{{- .secretName -}}
{{- else if .certManager.enabled -}}
{{- printf "%s-tls" (include "dependency-watchdog.fullname" $) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "dependency-watchdog.exposed" -}}
{{- if or .Values.api.plainHttp (include "dependency-watchdog.tlsSecret" .) }}true{{ end -}}
{{- end -}}

{{- define "dependency-watchdog.scheme" -}}
{{- ternary "https" "http" (not (empty (include "dependency-watchdog.tlsSecret" .))) -}}
{{- end -}}

{{/* Whether the leader writes its address into an EndpointSlice; a dry run does not lead. Takes root and component. */}}
{{- define "dependency-watchdog.leaderAddress" -}}
{{- $told := and .root.Values.leaderElection.leaderAddress.enabled (include "dependency-watchdog.exposed" .root) -}}
{{- if and $told (not (index .root.Values .component).flags.dryRun) }}true{{ end -}}
{{- end -}}

{{/* The Service through which the API of a component is best reached: that of its leader, else of any of its pods. */}}
{{- define "dependency-watchdog.apiService" -}}
{{- $name := include "dependency-watchdog.componentName" . -}}
{{- ternary (printf "%s-leader" $name) $name (not (empty (include "dependency-watchdog.leaderAddress" .))) -}}
{{- end -}}

{{/* Where the API of a component is within the cluster; empty: nowhere, but on 127.0.0.1 of its pods. */}}
{{- define "dependency-watchdog.innerUrl" -}}
{{- if include "dependency-watchdog.exposed" .root -}}
{{- printf "%s://%s.%s.svc:%d" (include "dependency-watchdog.scheme" .root) (include "dependency-watchdog.apiService" .) .root.Release.Namespace (int .root.Values.ports.api) -}}
{{- end -}}
{{- end -}}

{{/* Whether the seed is asked about callers: of the API, or of the metrics. */}}
{{- define "dependency-watchdog.reviews" -}}
{{- if or .Values.metrics.auth (eq .Values.api.auth.mode "kubernetes") }}true{{ end -}}
{{- end -}}

{{/* Whether the cluster serves what others define; "helm template" is told with --api-versions. */}}
{{- define "dependency-watchdog.serves" -}}
{{- if .root.Capabilities.APIVersions.Has .version }}true{{ end -}}
{{- end -}}

{{/* A Go duration in microseconds; 0 where it is longer than any that Go can hold, which is 292 years. */}}
{{- define "dependency-watchdog.microseconds" -}}
{{- $from := toDate "2006-01-02" "2000-01-01" -}}
{{- sub (dateModify . $from).UnixMicro $from.UnixMicro -}}
{{- end -}}

{{/* What the values ask for and only some clusters serve, by version, as JSON. */}}
{{- define "dependency-watchdog.optionalKinds" -}}
{{- $found := dict -}}
{{- $monitoring := list -}}
{{- if .Values.metrics.serviceMonitor.enabled }}{{ $monitoring = append $monitoring "metrics.serviceMonitor" }}{{ end -}}
{{- if .Values.metrics.podMonitor.enabled }}{{ $monitoring = append $monitoring "metrics.podMonitor" }}{{ end -}}
{{- if dig "enabled" false .Values.alerts }}{{ $monitoring = append $monitoring "alerts" }}{{ end -}}
{{- with $monitoring }}{{ $_ := set $found "monitoring.coreos.com/v1" (join ", " .) }}{{ end -}}
{{- range include "dependency-watchdog.components" . | fromJsonArray -}}
{{- if (index $.Values .).vpa.enabled }}{{ $_ := set $found "autoscaling.k8s.io/v1" (printf "%s.vpa" .) }}{{ end -}}
{{- end -}}
{{- if .Values.api.tls.certManager.enabled }}{{ $_ := set $found "cert-manager.io/v1" "api.tls.certManager" }}{{ end -}}
{{- if .Values.api.httpRoute.enabled }}{{ $_ := set $found "gateway.networking.k8s.io/v1" "api.httpRoute" }}{{ end -}}
{{- $found | toJson -}}
{{- end -}}

{{/* Whether the prober compares two paths instead of reading leases. */}}
{{- define "dependency-watchdog.endpointMode" -}}
{{- with .Values.prober.config -}}
{{- if or .internalKubeConfigSecretName .externalKubeConfigSecretName }}true{{ end -}}
{{- end -}}
{{- end -}}

{{/* What the endpoint probes of the prober need, as JSON: pods, exec. */}}
{{- define "dependency-watchdog.probeNeeds" -}}
{{- $needs := dict "pods" false "exec" false -}}
{{- range .Values.prober.config.endpointProbes -}}
{{- if not (kindIs "invalid" .podSelector) }}{{ $_ := set $needs "pods" true }}{{ end -}}
{{- if .exec }}{{ $_ := set $needs "exec" true }}{{ end -}}
{{- end -}}
{{- $needs | toJson -}}
{{- end -}}
