{{/*
The file of a loop, from its values: the same keys, but for `ref.resource`, which is for the chart alone, and for services of null:
of one that another file of values has brought, helm leaves the null. Takes root and loop.
*/}}
{{- define "dependency-watchdog.configFile" -}}
{{- $config := deepCopy (index .root.Values .loop).config -}}
{{- range $config.dependentResourceInfos -}}
{{- $_ := unset .ref "resource" -}}
{{- end -}}
{{- range $service, $selectors := $config.servicesAndDependantSelectors -}}
{{- if kindIs "invalid" $selectors }}{{ $_ := unset $config.servicesAndDependantSelectors $service }}{{ end -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/*
Its name has the hash of its content, and it never changes: a pod that is started again, of whatever revision, finds the
file that it was made for (docs/decisions/0031). Takes root and loop.
*/}}
{{- define "dependency-watchdog.configMapName" -}}
{{- $hash := include "dependency-watchdog.configFile" . | sha256sum | trunc 8 -}}
{{- printf "%s-%s-config-%s" (include "dependency-watchdog.fullname" .root) .loop $hash -}}
{{- end -}}

{{/* The folder of the file in the pod. Takes component and loop. */}}
{{- define "dependency-watchdog.configFolder" -}}
{{- printf "/etc/dependency-watchdog/%s" (ternary "config" .loop (eq .component .loop)) -}}
{{- end -}}

{{/* Hashes of the files of a component, and how Gardener's garbage collector sees what is in use. Takes a component. */}}
{{- define "dependency-watchdog.configAnnotations" -}}
{{- $root := .root -}}
{{- range .loops }}
{{- $each := dict "root" $root "loop" . }}
checksum/{{ . }}-config: {{ include "dependency-watchdog.configFile" $each | sha256sum }}
{{- end }}
{{- include "dependency-watchdog.configReferences" . }}
{{- end -}}

{{- define "dependency-watchdog.configReferences" -}}
{{- $root := .root -}}
{{- if $root.Values.gardenerGarbageCollection }}
{{- range .loops }}
{{- $name := include "dependency-watchdog.configMapName" (dict "root" $root "loop" .) }}
reference.resources.gardener.cloud/configmap-{{ $name | sha256sum | trunc 8 }}: {{ $name }}
{{- end }}
{{- end }}
{{- end -}}
