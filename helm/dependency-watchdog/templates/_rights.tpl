{{/*
The rights of each component: those that its configuration needs and no others (docs/security.md). Where Kubernetes can
limit a right to names, it is; list and watch of one name are allowed with a field selector on it. A dry run writes nothing.
*/}}
{{- define "dependency-watchdog.clusterRules" -}}
{{- if has "prober" .loops }}
{{- include "dependency-watchdog.proberRules" . }}
{{- end }}
{{- if has "weeder" .loops }}
{{- include "dependency-watchdog.weederRules" . }}
{{- end }}
{{- include "dependency-watchdog.customRules" (dict "resource" "pauses" "writes" "create, patch, delete" "here" .) }}
{{- if not .settings.flags.dryRun }}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}
{{- if include "dependency-watchdog.reviews" .root }}
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end }}
{{- end -}}

{{/* For a custom resource of the chart's own: its objects in all namespaces, and their status, which the prober's leader writes. */}}
{{- define "dependency-watchdog.customRules" }}
{{- $write := not .here.settings.flags.dryRun }}
- apiGroups: [dependency-watchdog.gardener.cloud]
  resources: [{{ .resource }}]
  verbs: [get, list, watch{{ if $write }}, {{ .writes }}{{ end }}]
{{- if and $write (has "prober" .here.loops) }}
- apiGroups: [dependency-watchdog.gardener.cloud]
  resources: [{{ .resource }}/status]
  verbs: [patch]
{{- end }}
{{- end -}}

{{- define "dependency-watchdog.proberRules" }}
- apiGroups: [extensions.gardener.cloud]
  resources: [clusters]
  verbs: [get, list, watch]
{{- if not (include "dependency-watchdog.endpointMode" .root) }}
- apiGroups: [machine.sapcloud.io]
  resources: [machines]
  verbs: [get, list, watch]
{{- end }}
- apiGroups: [""]
  resources: [secrets]
  resourceNames: {{ include "dependency-watchdog.secrets" .root }}
  verbs: [get, list, watch]
{{- include "dependency-watchdog.probeRules" . }}
{{- $write := not .settings.flags.dryRun }}
{{- $groups := include "dependency-watchdog.dependents" .root | fromJson }}
{{- range $key := keys $groups | sortAlpha }}
{{- with index $groups $key }}
- apiGroups: [{{ .group | quote }}]
  resources: [{{ .resource | quote }}]
  resourceNames: {{ .names | uniq | sortAlpha | toJson }}
  verbs: [get, list, watch{{ if $write }}, patch{{ end }}]
{{- if .scale }}
- apiGroups: [{{ .group | quote }}]
  resources: [{{ .resource }}/scale]
  resourceNames: {{ .names | uniq | sortAlpha | toJson }}
  verbs: [get{{ if $write }}, patch{{ end }}]
{{- end }}
{{- end }}
{{- end }}
{{- include "dependency-watchdog.customRules" (dict "resource" "scalerequests" "writes" "create, delete" "here" .) }}
{{- end -}}

{{/* The Secrets of a shoot, as JSON. */}}
{{- define "dependency-watchdog.secrets" -}}
{{- with .Values.prober.config -}}
{{- list .kubeConfigSecretName .internalKubeConfigSecretName .externalKubeConfigSecretName | compact | uniq | toJson -}}
{{- end -}}
{{- end -}}

{{/* For endpoint probes. To run a command is a GET that is upgraded; newer API servers ask for create. */}}
{{- define "dependency-watchdog.probeRules" }}
{{- $needs := include "dependency-watchdog.probeNeeds" .root | fromJson }}
{{- if $needs.pods }}
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
{{- end }}
{{- if and $needs.exec .settings.flags.allowExec }}
- apiGroups: [""]
  resources: [pods/exec]
  verbs: [get, create]
{{- end }}
{{- end -}}

{{- define "dependency-watchdog.weederRules" }}
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch{{ if not .settings.flags.dryRun }}, delete{{ end }}]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [get, list, watch]
{{- end -}}

{{/* The plural of a kind that everybody knows, whose own `spec.replicas` is what is scaled; empty: one that has to be told. */}}
{{- define "dependency-watchdog.knownResource" -}}
{{- if eq .apiVersion "apps/v1" -}}
{{- get (dict "Deployment" "deployments" "StatefulSet" "statefulsets" "ReplicaSet" "replicasets") .kind -}}
{{- end -}}
{{- end -}}

{{/* The dependents by API group and resource, as JSON: group, resource, names, and whether they are scaled by `scale`. */}}
{{- define "dependency-watchdog.dependents" -}}
{{- $found := dict -}}
{{- range .Values.prober.config.dependentResourceInfos -}}
{{- $known := include "dependency-watchdog.knownResource" .ref -}}
{{- $group := contains "/" .ref.apiVersion | ternary (splitList "/" .ref.apiVersion | first) "" -}}
{{- $resource := $known | default .ref.resource -}}
{{- $key := printf "%s/%s/%v" $group $resource (empty $known) -}}
{{- $before := get $found $key | default (dict "names" list) -}}
{{- $names := append $before.names .ref.name -}}
{{- $_ := set $found $key (dict "group" $group "resource" $resource "names" $names "scale" (empty $known)) -}}
{{- end -}}
{{- $found | toJson -}}
{{- end -}}

{{/* The rights in the own namespace; empty: none. */}}
{{- define "dependency-watchdog.ownRules" -}}
{{- if and (not .settings.flags.dryRun) .root.Values.leaderElection.enabled }}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames:
    {{- range .loops }}
    - dwd-{{ . }}-leader-election
    {{- end }}
  verbs: [get, update]
{{- end }}
{{- if include "dependency-watchdog.leaderAddress" . }}
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  resourceNames: [{{ include "dependency-watchdog.componentName" . }}-leader]
  verbs: [get, update]
{{- end }}
{{- end -}}
