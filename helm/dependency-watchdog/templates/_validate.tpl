{{/*
What a schema cannot see: values that do not go together. All mistakes are named at once, each with its path.
*/}}
{{- define "dependency-watchdog.validate" -}}
{{- $found := dict "all" list -}}
{{- $context := dict "values" .Values "root" . "found" $found -}}
{{- include "dependency-watchdog.validateModes" $context -}}
{{- include "dependency-watchdog.validateProber" $context -}}
{{- include "dependency-watchdog.validateWeeder" $context -}}
{{- include "dependency-watchdog.validatePods" $context -}}
{{- include "dependency-watchdog.validateElection" $context -}}
{{- include "dependency-watchdog.validateApi" $context -}}
{{- include "dependency-watchdog.validatePublication" $context -}}
{{- include "dependency-watchdog.validateMetrics" $context -}}
{{- with $found.all -}}
{{- fail (printf "\n\nThe values cannot be used:\n- %s\n" (join "\n- " .)) -}}
{{- end -}}
{{- end -}}

{{/* Notes a mistake: the context, path and sentence. */}}
{{- define "dependency-watchdog.mistake" -}}
{{- $found := (index . 0).found -}}
{{- $_ := set $found "all" (append $found.all (printf "%s: %s" (index . 1) (index . 2))) -}}
{{- end -}}

{{- define "dependency-watchdog.validateModes" -}}
{{- $both := and .values.prober.enabled .values.weeder.enabled -}}
{{- if and (eq .values.mode "serve") (not $both) -}}
{{- include "dependency-watchdog.mistake" (list . "mode" "serve runs both loops, so prober.enabled and weeder.enabled must be true; use separate to run one of them") -}}
{{- end -}}
{{- if not (or .values.prober.enabled .values.weeder.enabled) -}}
{{- include "dependency-watchdog.mistake" (list . "prober.enabled" "must be true where weeder.enabled is not: nothing would run") -}}
{{- end -}}
{{- $ports := .values.ports -}}
{{- if lt (list $ports.api $ports.metrics $ports.health | uniq | len) 3 -}}
{{- include "dependency-watchdog.mistake" (list . "ports" (printf "must differ, not %v, %v and %v" $ports.api $ports.metrics $ports.health)) -}}
{{- end -}}
{{- end -}}

{{- define "dependency-watchdog.validateProber" -}}
{{- $context := . -}}
{{- $config := .values.prober.config -}}
{{- if .values.prober.enabled -}}
{{- if not $config.kubeConfigSecretName -}}
{{- include "dependency-watchdog.mistake" (list . "prober.config.kubeConfigSecretName" "is required: the Secret with the kubeconfig in each control-plane namespace") -}}
{{- end -}}
{{- if not $config.dependentResourceInfos -}}
{{- include "dependency-watchdog.mistake" (list . "prober.config.dependentResourceInfos" "is required: what is scaled") -}}
{{- end -}}
{{- include "dependency-watchdog.validateTimes" . -}}
{{- $seen := dict -}}
{{- range $index, $info := $config.dependentResourceInfos -}}
{{- $path := printf "prober.config.dependentResourceInfos[%d]" $index -}}
{{- include "dependency-watchdog.validateDependent" (dict "context" $context "path" $path "info" $info "seen" $seen) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "dependency-watchdog.validateTimes" -}}
{{- $config := .values.prober.config -}}
{{- $interval := $config.probeInterval | default "10s" -}}
{{- with $config.suspectProbeInterval -}}
{{- if gt (include "dependency-watchdog.milliseconds" . | int64) (include "dependency-watchdog.milliseconds" $interval | int64) -}}
{{- include "dependency-watchdog.mistake" (list $ "prober.config.suspectProbeInterval" (printf "must be at most probeInterval (%s), not %s" $interval .)) -}}
{{- end -}}
{{- end -}}
{{- with $config.maxProtectionDuration -}}
{{- if gt (include "dependency-watchdog.milliseconds" . | int64) 86400000 -}}
{{- include "dependency-watchdog.mistake" (list $ "prober.config.maxProtectionDuration" (printf "must be at most 24h, not %s" .)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "dependency-watchdog.validateDependent" -}}
{{- $ref := .info.ref -}}
{{- $known := include "dependency-watchdog.knownResource" $ref -}}
{{- if and (not $known) (not $ref.resource) -}}
{{- include "dependency-watchdog.mistake" (list .context (printf "%s.ref.resource" .path) (printf "is required for %s of %s: the plural of the kind as RBAC names it, such as %ss" $ref.kind $ref.apiVersion (lower $ref.kind))) -}}
{{- end -}}
{{- if and $known $ref.resource (ne $known ($ref.resource | default "")) -}}
{{- include "dependency-watchdog.mistake" (list .context (printf "%s.ref.resource" .path) (printf "must be %s or absent for %s of apps/v1, not %s" $known $ref.kind $ref.resource)) -}}
{{- end -}}
{{- $group := contains "/" $ref.apiVersion | ternary (splitList "/" $ref.apiVersion | first) "" -}}
{{- $identity := printf "%s/%s/%s" $group $ref.kind $ref.name -}}
{{- if hasKey .seen $identity -}}
{{- include "dependency-watchdog.mistake" (list .context (printf "%s.ref" .path) (printf "%s/%s is named twice, first in %s" $ref.kind $ref.name (get .seen $identity))) -}}
{{- else -}}
{{- $_ := set .seen $identity (printf "%s.ref" .path) -}}
{{- end -}}
{{- if and (kindIs "bool" .info.optional) (kindIs "bool" .info.shouldExist) -}}
{{- include "dependency-watchdog.mistake" (list .context (printf "%s.shouldExist" .path) "is the inverse of optional: only one of the two may be given") -}}
{{- end -}}
{{- end -}}

{{- define "dependency-watchdog.validateWeeder" -}}
{{- if .values.weeder.enabled -}}
{{- $services := 0 -}}
{{- range $name, $selectors := .values.weeder.config.servicesAndDependantSelectors -}}
{{- if $selectors }}{{ $services = add1 $services }}{{ end -}}
{{- end -}}
{{- if not $services -}}
{{- include "dependency-watchdog.mistake" (list . "weeder.config.servicesAndDependantSelectors" "must have at least one service") -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "dependency-watchdog.validatePods" -}}
{{- $context := . -}}
{{- range $component := include "dependency-watchdog.components" .root | fromJsonArray -}}
{{- $settings := index $context.values $component -}}
{{- if and (gt (int $settings.replicas) 1) (not $context.values.leaderElection.enabled) (not $settings.flags.dryRun) -}}
{{- include "dependency-watchdog.mistake" (list $context (printf "%s.replicas" $component) (printf "must be at most 1 without leaderElection.enabled, not %v: they would all act" $settings.replicas)) -}}
{{- end -}}
{{- $reserved := list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" -}}
{{- range $label, $_ := $settings.podLabels -}}
{{- if has $label $reserved -}}
{{- include "dependency-watchdog.mistake" (list $context (printf "%s.podLabels[%s]" $component $label) "is the chart's own: pods are selected by it") -}}
{{- end -}}
{{- end -}}
{{- include "dependency-watchdog.validateBudget" (dict "context" $context "component" $component "settings" $settings) -}}
{{- end -}}
{{- range $label, $_ := .values.labels -}}
{{- if or (hasPrefix "app.kubernetes.io/" $label) (hasPrefix "helm.sh/" $label) -}}
{{- include "dependency-watchdog.mistake" (list $context (printf "labels[%s]" $label) "is the chart's own") -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "dependency-watchdog.validateBudget" -}}
{{- $pdb := .settings.pdb -}}
{{- $least := not (kindIs "invalid" $pdb.minAvailable) -}}
{{- $most := not (kindIs "invalid" $pdb.maxUnavailable) -}}
{{- if and $pdb.enabled $least $most -}}
{{- include "dependency-watchdog.mistake" (list .context (printf "%s.pdb.minAvailable" .component) "stands instead of maxUnavailable: set that to null") -}}
{{- else if and $pdb.enabled (not $least) (not $most) -}}
{{- include "dependency-watchdog.mistake" (list .context (printf "%s.pdb.maxUnavailable" .component) "is required where there is no minAvailable") -}}
{{- end -}}
{{- end -}}

{{- define "dependency-watchdog.validateElection" -}}
{{- with .values.leaderElection -}}
{{- $lease := include "dependency-watchdog.milliseconds" .leaseDuration | int64 -}}
{{- $renew := include "dependency-watchdog.milliseconds" .renewDeadline | int64 -}}
{{- $retry := include "dependency-watchdog.milliseconds" .retryPeriod | int64 -}}
{{- if lt $lease 1000 -}}
{{- include "dependency-watchdog.mistake" (list $ "leaderElection.leaseDuration" (printf "must be at least 1s, not %s" .leaseDuration)) -}}
{{- end -}}
{{- if not (and (gt $lease $renew) (gt (mul 10 $renew) (mul 12 $retry))) -}}
{{- include "dependency-watchdog.mistake" (list $ "leaderElection" (printf "must fit: leaseDuration > renewDeadline > 1.2 × retryPeriod, not %s, %s and %s" .leaseDuration .renewDeadline .retryPeriod)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "dependency-watchdog.validateApi" -}}
{{- $api := .values.api -}}
{{- $exposed := include "dependency-watchdog.exposed" .root -}}
{{- if and (eq $api.auth.mode "none") $exposed -}}
{{- include "dependency-watchdog.mistake" (list . "api.auth.mode" "must be kubernetes or token where the API is served to others (api.tls, api.plainHttp): everybody would be admin") -}}
{{- end -}}
{{- if and (eq $api.auth.mode "token") (not $api.auth.tokenSecret.name) -}}
{{- include "dependency-watchdog.mistake" (list . "api.auth.tokenSecret.name" "is required with api.auth.mode token: the Secret with the callers") -}}
{{- end -}}
{{- if and (ne $api.auth.mode "token") $api.auth.tokenSecret.name -}}
{{- include "dependency-watchdog.mistake" (list . "api.auth.tokenSecret.name" (printf "is for api.auth.mode token only, not %s" $api.auth.mode)) -}}
{{- end -}}
{{- if and $api.tls.secretName $api.tls.certManager.enabled -}}
{{- include "dependency-watchdog.mistake" (list . "api.tls.secretName" "must be empty with api.tls.certManager.enabled, which names the Secret itself") -}}
{{- end -}}
{{- if and $api.plainHttp (include "dependency-watchdog.tlsSecret" .root) -}}
{{- include "dependency-watchdog.mistake" (list . "api.plainHttp" "must be false where there is TLS (api.tls)") -}}
{{- end -}}
{{- with $api.tls.certManager -}}
{{- if and .enabled (not .issuerRef.name) -}}
{{- include "dependency-watchdog.mistake" (list $ "api.tls.certManager.issuerRef.name" "is required: who signs the certificate") -}}
{{- end -}}
{{- if and .enabled (ge (include "dependency-watchdog.milliseconds" .renewBefore | int64) (include "dependency-watchdog.milliseconds" .duration | int64)) -}}
{{- include "dependency-watchdog.mistake" (list $ "api.tls.certManager.renewBefore" (printf "must be less than duration (%s), not %s" .duration .renewBefore)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "dependency-watchdog.validatePublication" -}}
{{- $api := .values.api -}}
{{- $exposed := include "dependency-watchdog.exposed" .root -}}
{{- $weeder := and (eq .values.mode "separate") .values.weeder.enabled -}}
{{- $prober := or (eq .values.mode "serve") .values.prober.enabled -}}
{{- range $kind := list "ingress" "httpRoute" -}}
{{- $each := index $api $kind -}}
{{- $main := eq $kind "ingress" | ternary "host" "hostnames" -}}
{{- $other := eq $kind "ingress" | ternary "weederHost" "weederHostnames" -}}
{{- if $each.enabled -}}
{{- if not $exposed -}}
{{- include "dependency-watchdog.mistake" (list $ (printf "api.%s.enabled" $kind) "needs api.tls or api.plainHttp: without them the API is on 127.0.0.1 of the pods only") -}}
{{- end -}}
{{- if and $prober (not (index $each $main)) -}}
{{- include "dependency-watchdog.mistake" (list $ (printf "api.%s.%s" $kind $main) "is required") -}}
{{- end -}}
{{- if and (not $prober) (index $each $main) -}}
{{- include "dependency-watchdog.mistake" (list $ (printf "api.%s.%s" $kind $main) (printf "is the prober's, which does not run; use %s" $other)) -}}
{{- end -}}
{{- if and (not $prober) (not (index $each $other)) -}}
{{- include "dependency-watchdog.mistake" (list $ (printf "api.%s.%s" $kind $other) "is required") -}}
{{- end -}}
{{- if and (index $each $other) (not $weeder) -}}
{{- include "dependency-watchdog.mistake" (list $ (printf "api.%s.%s" $kind $other) "is for a weeder with a Deployment of its own") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $api.httpRoute.enabled (not $api.httpRoute.parentRefs) -}}
{{- include "dependency-watchdog.mistake" (list . "api.httpRoute.parentRefs" "is required: the Gateway") -}}
{{- end -}}
{{- end -}}

{{- define "dependency-watchdog.validateMetrics" -}}
{{- $metrics := .values.metrics -}}
{{- if and $metrics.serviceMonitor.enabled $metrics.podMonitor.enabled -}}
{{- include "dependency-watchdog.mistake" (list . "metrics.podMonitor.enabled" "must be false where metrics.serviceMonitor.enabled is true: everything would be scraped twice") -}}
{{- end -}}
{{- range $kind := list "serviceMonitor" "podMonitor" -}}
{{- $monitor := index $metrics $kind -}}
{{- $path := printf "metrics.%s.authorization.name" $kind -}}
{{- if and $monitor.enabled $metrics.auth (not $monitor.authorization.name) -}}
{{- include "dependency-watchdog.mistake" (list $ $path "is required with metrics.auth: the Secret with the scraper's token") -}}
{{- end -}}
{{- if and $monitor.enabled $monitor.authorization.name (not $metrics.auth) -}}
{{- include "dependency-watchdog.mistake" (list $ $path "is for metrics.auth only: the token would be sent to whoever answers") -}}
{{- end -}}
{{- end -}}
{{- end -}}
