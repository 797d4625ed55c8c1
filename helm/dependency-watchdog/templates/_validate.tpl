{{/*
What a schema cannot see: values that do not go together. All mistakes are named at once, each with its path.
*/}}
{{- define "dependency-watchdog.validate" -}}
{{- $found := dict "all" list -}}
{{- $context := dict "values" .Values "root" . "found" $found -}}
{{- include "dependency-watchdog.validateNames" $context -}}
{{- include "dependency-watchdog.validateModes" $context -}}
{{- include "dependency-watchdog.validateProber" $context -}}
{{- include "dependency-watchdog.validateWeeder" $context -}}
{{- include "dependency-watchdog.validatePods" $context -}}
{{- include "dependency-watchdog.validateElection" $context -}}
{{- include "dependency-watchdog.validateApi" $context -}}
{{- include "dependency-watchdog.validatePublication" $context -}}
{{- include "dependency-watchdog.validateMetrics" $context -}}
{{- include "dependency-watchdog.validateAlerts" $context -}}
{{- with $found.all -}}
{{- fail (printf "\n\nThe values cannot be used:\n- %s\n" (join "\n- " .)) -}}
{{- end -}}
{{- end -}}

{{/* Notes a mistake: the context, path and sentence. */}}
{{- define "dependency-watchdog.mistake" -}}
{{- $found := (index . 0).found -}}
{{- $_ := set $found "all" (append $found.all (printf "%s: %s" (index . 1) (index . 2))) -}}
{{- end -}}

{{/* Notes a duration that Go cannot hold: a dict of context, path and value. */}}
{{- define "dependency-watchdog.validateDuration" -}}
{{- if not (include "dependency-watchdog.microseconds" .value | int64) -}}
{{- include "dependency-watchdog.mistake" (list .context .path (printf "must be between 1µs and 292 years, not %s" .value)) -}}
{{- end -}}
{{- end -}}

{{- define "dependency-watchdog.validateNames" -}}
{{- $context := . -}}
{{- $fullname := include "dependency-watchdog.fullname" .root -}}
{{- if not (regexMatch "^[a-z]" $fullname) -}}
{{- include "dependency-watchdog.mistake" (list . "fullnameOverride" (printf "is required for a release with this name: Services begin with a letter, not as %s" $fullname)) -}}
{{- end -}}
{{- $reserved := list "app.kubernetes.io/" "helm.sh/" "kubernetes.io/" "endpointslice.kubernetes.io/" "resources.gardener.cloud/" "dependency-watchdog.gardener.cloud/" -}}
{{- range $label, $_ := .values.labels -}}
{{- range $reserved -}}
{{- if hasPrefix . $label -}}
{{- include "dependency-watchdog.mistake" (list $context (printf "labels[%s]" $label) "is the chart's own") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $accounts := dict -}}
{{- range $component := include "dependency-watchdog.components" .root | fromJsonArray -}}
{{- $account := include "dependency-watchdog.serviceAccountName" (dict "root" $context.root "component" $component) -}}
{{- $path := printf "serviceAccount.names.%s" $component -}}
{{- if eq $account "default" -}}
{{- include "dependency-watchdog.mistake" (list $context $path "must not be default: every pod of the namespace would have these rights") -}}
{{- else if hasKey $accounts $account -}}
{{- include "dependency-watchdog.mistake" (list $context $path (printf "must not be that of the %s, %s: neither may have the rights of the other" (get $accounts $account) $account)) -}}
{{- end -}}
{{- $_ := set $accounts $account $component -}}
{{- end -}}
{{- end -}}

{{- define "dependency-watchdog.validateModes" -}}
{{- $context := . -}}
{{- $other := eq .values.mode "serve" | ternary (list "prober" "weeder") (list "serve") -}}
{{- $own := eq .values.mode "serve" | ternary "serve.flags.dryRun" "prober.flags.dryRun and weeder.flags.dryRun" -}}
{{- range $other -}}
{{- if (index $context.values .).flags.dryRun -}}
{{- include "dependency-watchdog.mistake" (list $context (printf "%s.flags.dryRun" .) (printf "has no effect with mode %s, which would write: set %s" $context.values.mode $own)) -}}
{{- end -}}
{{- end -}}
{{- $both := and .values.prober.enabled .values.weeder.enabled -}}
{{- if and (eq .values.mode "serve") (not $both) -}}
{{- include "dependency-watchdog.mistake" (list . "mode" "serve runs both loops, so prober.enabled and weeder.enabled must be true; use separate to run one of them") -}}
{{- end -}}
{{- if not (or .values.prober.enabled .values.weeder.enabled) -}}
{{- include "dependency-watchdog.mistake" (list . "prober.enabled" "must be true where weeder.enabled is not: nothing would run") -}}
{{- end -}}
{{- $ports := .values.ports -}}
{{- if lt (list (int $ports.api) (int $ports.metrics) (int $ports.health) | uniq | len) 3 -}}
{{- include "dependency-watchdog.mistake" (list . "ports" (printf "must differ, not %v, %v and %v" $ports.api $ports.metrics $ports.health)) -}}
{{- end -}}
{{- if and (ne (int $ports.api) 8080) (not (include "dependency-watchdog.exposed" .root)) -}}
{{- include "dependency-watchdog.mistake" (list . "ports.api" "must be 8080 without api.tls and api.plainHttp: then the API is on 127.0.0.1:8080 of the pods, and nowhere else") -}}
{{- end -}}
{{- end -}}

{{- define "dependency-watchdog.validateProber" -}}
{{- $context := . -}}
{{- $config := .values.prober.config -}}
{{- if .values.prober.enabled -}}
{{- include "dependency-watchdog.validateSecrets" . -}}
{{- include "dependency-watchdog.validateEndpointProbes" . -}}
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
{{- include "dependency-watchdog.validateDuration" (dict "context" $ "path" "prober.config.suspectProbeInterval" "value" .) -}}
{{- if gt (include "dependency-watchdog.microseconds" . | int64) (include "dependency-watchdog.microseconds" $interval | int64) -}}
{{- include "dependency-watchdog.mistake" (list $ "prober.config.suspectProbeInterval" (printf "must be at most probeInterval (%s), not %s" $interval .)) -}}
{{- end -}}
{{- end -}}
{{- with $config.maxProtectionDuration -}}
{{- $longest := include "dependency-watchdog.microseconds" . | int64 -}}
{{- if or (not $longest) (gt $longest 86400000000) -}}
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
{{- end -}}

{{- define "dependency-watchdog.validateBudget" -}}
{{- $pdb := .settings.pdb -}}
{{- $least := not (kindIs "invalid" $pdb.minAvailable) -}}
{{- $most := not (kindIs "invalid" $pdb.maxUnavailable) -}}
{{- if and $pdb.enabled $least $most -}}
{{- include "dependency-watchdog.mistake" (list .context (printf "%s.pdb.minAvailable" .component) "stands instead of maxUnavailable: set that to null") -}}
{{- else if and $pdb.enabled (not $least) (not $most) -}}
{{- include "dependency-watchdog.mistake" (list .context (printf "%s.pdb.maxUnavailable" .component) "is required where there is no minAvailable") -}}
{{- else if and $pdb.enabled .settings.replicas -}}
{{- $path := $least | ternary "minAvailable" "maxUnavailable" -}}
{{- $given := $least | ternary $pdb.minAvailable $pdb.maxUnavailable -}}
{{- $percent := regexReplaceAll "%$" (toString $given) "" | int64 -}}
{{- $pods := kindIs "string" $given | ternary (div (add (mul $percent .settings.replicas) 99) 100) (toString $given | int64) -}}
{{- if or (and $most (not $pods)) (and $least (ge $pods (int64 .settings.replicas))) -}}
{{- include "dependency-watchdog.mistake" (list .context (printf "%s.pdb.%s" .component $path) (printf "would keep every node with one of the %v pods from being drained, with %v" .settings.replicas $given)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "dependency-watchdog.validateElection" -}}
{{- with .values.leaderElection -}}
{{- $times := dict -}}
{{- range $name := list "leaseDuration" "renewDeadline" "retryPeriod" -}}
{{- $given := index $.values.leaderElection $name -}}
{{- $_ := set $times $name (include "dependency-watchdog.microseconds" $given | int64) -}}
{{- include "dependency-watchdog.validateDuration" (dict "context" $ "path" (printf "leaderElection.%s" $name) "value" $given) -}}
{{- end -}}
{{- $lease := $times.leaseDuration -}}
{{- if and $lease (lt $lease 1000000) -}}
{{- include "dependency-watchdog.mistake" (list $ "leaderElection.leaseDuration" (printf "must be at least 1s, not %s" .leaseDuration)) -}}
{{- end -}}
{{- $fits := and (gt $lease $times.renewDeadline) (gt (mul 10 $times.renewDeadline) (mul 12 $times.retryPeriod)) -}}
{{- if and $lease $times.renewDeadline $times.retryPeriod (not $fits) -}}
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
{{- include "dependency-watchdog.validateCallers" . -}}
{{- if and $api.tls.secretName $api.tls.certManager.enabled -}}
{{- include "dependency-watchdog.mistake" (list . "api.tls.secretName" "must be empty with api.tls.certManager.enabled, which names the Secret itself") -}}
{{- end -}}
{{- if and (ne $api.service.type "ClusterIP") (not $exposed) -}}
{{- include "dependency-watchdog.mistake" (list . "api.service.type" "needs api.tls or api.plainHttp: without them there is no Service of the API") -}}
{{- end -}}
{{- if and $api.plainHttp (include "dependency-watchdog.tlsSecret" .root) -}}
{{- include "dependency-watchdog.mistake" (list . "api.plainHttp" "must be false where there is TLS (api.tls)") -}}
{{- end -}}
{{- with $api.tls.certManager -}}
{{- if and .enabled (not .issuerRef.name) -}}
{{- include "dependency-watchdog.mistake" (list $ "api.tls.certManager.issuerRef.name" "is required: who signs the certificate") -}}
{{- end -}}
{{- if .enabled -}}
{{- include "dependency-watchdog.validateDuration" (dict "context" $ "path" "api.tls.certManager.duration" "value" .duration) -}}
{{- include "dependency-watchdog.validateDuration" (dict "context" $ "path" "api.tls.certManager.renewBefore" "value" .renewBefore) -}}
{{- $valid := include "dependency-watchdog.microseconds" .duration | int64 -}}
{{- if and $valid (ge (include "dependency-watchdog.microseconds" .renewBefore | int64) $valid) -}}
{{- include "dependency-watchdog.mistake" (list $ "api.tls.certManager.renewBefore" (printf "must be less than duration (%s), not %s" .duration .renewBefore)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* ServiceAccounts for callers: they need their roles, and may not be those of the watchdog itself. */}}
{{- define "dependency-watchdog.validateCallers" -}}
{{- $context := . -}}
{{- $auth := .values.api.auth -}}
{{- $path := "api.auth.serviceAccounts" -}}
{{- if $auth.serviceAccounts.create -}}
{{- if ne $auth.mode "kubernetes" -}}
{{- include "dependency-watchdog.mistake" (list . (printf "%s.create" $path) (printf "is for api.auth.mode kubernetes only, not %s" $auth.mode)) -}}
{{- else if not (and .values.rbac.create $auth.callerRoles) -}}
{{- include "dependency-watchdog.mistake" (list . (printf "%s.create" $path) "needs rbac.create and api.auth.callerRoles: the accounts are bound to those roles") -}}
{{- end -}}
{{- range $component := include "dependency-watchdog.components" .root | fromJsonArray -}}
{{- $account := include "dependency-watchdog.serviceAccountName" (dict "root" $context.root "component" $component) -}}
{{- range $role := list "viewer" "operator" "admin" -}}
{{- if eq $account (printf "%s-%s" (include "dependency-watchdog.fullname" $context.root) $role) -}}
{{- include "dependency-watchdog.mistake" (list $context (printf "serviceAccount.names.%s" $component) (printf "must not be that of the callers, %s: they would have the rights of the watchdog" $account)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- else -}}
{{- range $role := list "viewer" "operator" "admin" -}}
{{- if index $auth.serviceAccounts.tokensFor $role -}}
{{- include "dependency-watchdog.mistake" (list $context (printf "%s.tokensFor.%s" $path $role) (printf "needs %s.create: there is no account to make tokens of" $path)) -}}
{{- end -}}
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
{{- $mains := index $each $main -}}
{{- $others := index $each $other -}}
{{- if eq $kind "ingress" }}{{ $mains = list $mains | compact }}{{ $others = list $others }}{{ end -}}
{{- range $host := uniq $mains -}}
{{- if has $host $others -}}
{{- include "dependency-watchdog.mistake" (list $ (printf "api.%s.%s" $kind $other) (printf "must differ from %s: %s cannot lead to both" $main $host)) -}}
{{- end -}}
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

{{- define "dependency-watchdog.validateAlerts" -}}
{{- if and .values.alerts.enabled (not .values.alerts.runbookUrl) -}}
{{- include "dependency-watchdog.mistake" (list . "alerts.runbookUrl" "is required with alerts.enabled, as each alert links to what to do: where you publish docs/, such as https://docs.example.org/{version}/docs/runbook.md") -}}
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
{{- include "dependency-watchdog.mistake" (list $ $path "is for metrics.auth only: the token would be sent to anything that answers") -}}
{{- end -}}
{{- end -}}
{{- end -}}
