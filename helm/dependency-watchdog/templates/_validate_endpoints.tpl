{{/* What a schema cannot see of endpoint mode and endpoint probes; part of dependency-watchdog.validateProber. */}}
{{- define "dependency-watchdog.validateSecrets" -}}
{{- $context := . -}}
{{- $config := .values.prober.config -}}
{{- if not (include "dependency-watchdog.endpointMode" .root) -}}
{{- if not $config.kubeConfigSecretName -}}
{{- include "dependency-watchdog.mistake" (list . "prober.config.kubeConfigSecretName" "is required: the Secret with the kubeconfig in each control-plane namespace; or, for endpoint mode, internalKubeConfigSecretName and externalKubeConfigSecretName") -}}
{{- end -}}
{{- if not (kindIs "invalid" $config.internalProbeFailureBackoffDuration) -}}
{{- include "dependency-watchdog.mistake" (list . "prober.config.internalProbeFailureBackoffDuration" "is for endpoint mode only") -}}
{{- end -}}
{{- else -}}
{{- if $config.kubeConfigSecretName -}}
{{- include "dependency-watchdog.mistake" (list . "prober.config.kubeConfigSecretName" "must be null in endpoint mode, which is chosen by internalKubeConfigSecretName and externalKubeConfigSecretName") -}}
{{- end -}}
{{- if and $config.internalKubeConfigSecretName (eq $config.internalKubeConfigSecretName ($config.externalKubeConfigSecretName | default "")) -}}
{{- include "dependency-watchdog.mistake" (list . "prober.config.externalKubeConfigSecretName" "must differ from internalKubeConfigSecretName: the two paths would be one") -}}
{{- end -}}
{{- if $config.nodeLeaseFailureFraction -}}
{{- include "dependency-watchdog.mistake" (list . "prober.config.nodeLeaseFailureFraction" "is for lease mode only") -}}
{{- end -}}
{{- range $name, $other := dict "internalKubeConfigSecretName" "externalKubeConfigSecretName" "externalKubeConfigSecretName" "internalKubeConfigSecretName" -}}
{{- if not (index $config $name) -}}
{{- include "dependency-watchdog.mistake" (list $context (printf "prober.config.%s" $name) (printf "is required with %s: endpoint mode compares two paths" $other)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "dependency-watchdog.validateEndpointProbes" -}}
{{- $context := . -}}
{{- $seen := dict -}}
{{- range $index, $probe := .values.prober.config.endpointProbes -}}
{{- $path := printf "prober.config.endpointProbes[%d]" $index -}}
{{- if hasKey $seen $probe.name -}}
{{- include "dependency-watchdog.mistake" (list $context (printf "%s.name" $path) (printf "%s is named twice, first in %s" $probe.name (get $seen $probe.name))) -}}
{{- else -}}
{{- $_ := set $seen $probe.name $path -}}
{{- end -}}
{{- $handlers := list -}}
{{- range $kind := list "httpGet" "tcpSocket" "grpc" "exec" -}}
{{- if index $probe $kind }}{{ $handlers = append $handlers $kind }}{{ end -}}
{{- end -}}
{{- if ne (len $handlers) 1 -}}
{{- include "dependency-watchdog.mistake" (list $context $path (printf "must have exactly one of httpGet, tcpSocket, grpc and exec, not %s" (join " and " $handlers | default "none"))) -}}
{{- else -}}
{{- $each := dict "context" $context "path" $path "probe" $probe "kind" (first $handlers) "handler" (index $probe (first $handlers)) -}}
{{- include "dependency-watchdog.validateTarget" $each -}}
{{- include "dependency-watchdog.validateMeaning" $each -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whom a probe asks: a host, or containers. Takes context, path, probe, kind and handler. */}}
{{- define "dependency-watchdog.validateTarget" -}}
{{- $probe := .probe -}}
{{- $inner := .handler.host -}}
{{- $pods := not (kindIs "invalid" $probe.podSelector) -}}
{{- $of := printf "%s.%s" .path .kind -}}
{{- if and $probe.host $inner -}}
{{- include "dependency-watchdog.mistake" (list .context (printf "%s.host" $of) "is another spelling of host: only one of the two may be given") -}}
{{- end -}}
{{- if and $pods (or $probe.host $inner) -}}
{{- include "dependency-watchdog.mistake" (list .context (printf "%s.podSelector" .path) "must not be there with a host: either a host is asked, or containers are") -}}
{{- end -}}
{{- if not $pods -}}
{{- if eq .kind "exec" -}}
{{- include "dependency-watchdog.mistake" (list .context (printf "%s.podSelector" .path) "is required with exec, which runs inside a container") -}}
{{- else if has ($probe.type | default "Readiness") (list "Startup" "Liveness") -}}
{{- include "dependency-watchdog.mistake" (list .context (printf "%s.podSelector" .path) (printf "is required with type %s, which is about a container" $probe.type)) -}}
{{- else if not (or $probe.host $inner) -}}
{{- include "dependency-watchdog.mistake" (list .context .path "must have a host or a podSelector: who is asked") -}}
{{- end -}}
{{- if kindIs "string" .handler.port -}}
{{- include "dependency-watchdog.mistake" (list .context (printf "%s.port" $of) (printf "must be a number without podSelector, not %s: a host has no named ports" .handler.port)) -}}
{{- end -}}
{{- if $probe.container -}}
{{- include "dependency-watchdog.mistake" (list .context (printf "%s.container" .path) "is for podSelector only") -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What its results lead to. Takes the same. */}}
{{- define "dependency-watchdog.validateMeaning" -}}
{{- $type := .probe.type | default "Readiness" -}}
{{- $component := eq .context.values.mode "serve" | ternary "serve" "prober" -}}
{{- if and (eq .kind "exec") (not (index .context.values $component).flags.allowExec) -}}
{{- include "dependency-watchdog.mistake" (list .context (printf "%s.exec" .path) (printf "needs %s.flags.allowExec, and with it the right to run commands in every pod of the seed" $component)) -}}
{{- end -}}
{{- $context := .context -}}
{{- $path := .path -}}
{{- range $index, $header := .handler.httpHeaders -}}
{{- if has (lower $header.name) (list "connection" "content-length" "te" "trailer" "transfer-encoding" "upgrade") -}}
{{- include "dependency-watchdog.mistake" (list $context (printf "%s.httpGet.httpHeaders[%d].name" $path $index) (printf "must not be %s: it belongs to the connection" $header.name)) -}}
{{- end -}}
{{- end -}}
{{- if and (ne $type "Readiness") (gt (int64 (.probe.successThreshold | default 1)) 1) -}}
{{- include "dependency-watchdog.mistake" (list .context (printf "%s.successThreshold" .path) (printf "must be 1 with type %s, not %v" $type .probe.successThreshold)) -}}
{{- end -}}
{{- if and (ne $type "Readiness") (eq (.probe.effect | default "Observe") "GateScaleDown") -}}
{{- include "dependency-watchdog.mistake" (list .context (printf "%s.effect" .path) (printf "must be Observe with type %s: only Readiness may gate" $type)) -}}
{{- end -}}
{{- end -}}
