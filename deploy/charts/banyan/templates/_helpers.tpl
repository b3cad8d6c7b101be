{{- define "banyan.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "banyan.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "banyan.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Selectors are immutable: nothing that an upgrade changes stands here. */}}
{{- define "banyan.selectorLabels" -}}
app.kubernetes.io/name: {{ include "banyan.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: peer
{{- end -}}

{{- define "banyan.labels" -}}
{{ include "banyan.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "banyan.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "banyan.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "banyan.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* Seconds of a duration such as 15s, 10m or 1m30s, rounded up. */}}
{{- define "banyan.seconds" -}}
{{- $text := toString .value -}}
{{- if not (regexMatch "^(0|([0-9]+(ms|h|m|s))+)$" $text) -}}
{{- fail (printf "config.%s: %q is not a duration of whole numbers such as 15s, 10m or 1m30s" .key $text) -}}
{{- end -}}
{{- $ms := 0 -}}
{{- range regexFindAll "[0-9]+(ms|h|m|s)" $text -1 -}}
{{- $n := regexFind "[0-9]+" . | int -}}
{{- $unit := regexFind "[a-z]+" . -}}
{{- $ms = add $ms (mul $n (get (dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000) $unit)) -}}
{{- end -}}
{{- div (add $ms 999) 1000 -}}
{{- end -}}

{{/* The whole way out: the kubelet's sleep, drain.delay, drain.timeout, 20 s to
leave the mesh. The kubelet's countdown begins before preStop. */}}
{{- define "banyan.grace" -}}
{{- $drain := default dict .Values.config.drain -}}
{{- $delay := include "banyan.seconds" (dict "key" "drain.delay" "value" (hasKey $drain "delay" | ternary $drain.delay "15s")) -}}
{{- $timeout := include "banyan.seconds" (dict "key" "drain.timeout" "value" (hasKey $drain "timeout" | ternary $drain.timeout "10m")) -}}
{{- add (int $delay) (int $timeout) (int .Values.preStopSleep) 20 -}}
{{- end -}}

{{- define "banyan.watchesPods" -}}
{{- $kubernetes := dig "discovery" "kubernetes" dict .Values.config -}}
{{- if $kubernetes.selector -}}true{{- end -}}
{{- end -}}

{{/* Rules that a schema cannot tell. */}}
{{- define "banyan.validate" -}}
{{- if and (not .Values.mesh.existingSecret) (not .Values.mesh.insecure) -}}
{{- fail "mesh.existingSecret is required: banyan keygen > mesh.key; head -c 32 /dev/urandom | base64 > hash.secret; kubectl create secret generic banyan-mesh --from-file=mesh.key --from-file=hash.secret; then --set mesh.existingSecret=banyan-mesh" -}}
{{- end -}}
{{- if and .Values.mesh.existingSecret .Values.mesh.insecure -}}
{{- fail "mesh.insecure and mesh.existingSecret exclude each other" -}}
{{- end -}}
{{- $owned := dict "http.listen" "it is :8080, see service.port" "admin.listen" "it is :8081" "mesh.bind" "it is 0.0.0.0:7946" "mesh.join" "use mesh.extraSeeds" "mesh.key" "use mesh.existingSecret" "mesh.keyring" "use mesh.existingSecret" "mesh.hash_secret" "use mesh.existingSecret" "mesh.insecure" "use mesh.insecure of the values" "mesh.tls" "use mesh.tls.existingSecret" "auth.keys_file" "use auth.existingSecret" "admin.keys_file" "use admin.existingSecret" "admin.insecure" "use admin.insecure of the values" "admin.hosts" "use admin.hosts of the values" "admin.tls" "use admin.tls.existingSecret" "http.tls" "use tls.existingSecret" -}}
{{- range $path, $cure := $owned -}}
{{- $parts := splitList "." $path -}}
{{- $section := get $.Values.config (first $parts) -}}
{{- if and (kindIs "map" $section) (hasKey $section (last $parts)) -}}
{{- fail (printf "config.%s is set by the chart: %s" $path $cure) -}}
{{- end -}}
{{- end -}}
{{- if and (not .Values.admin.existingSecret) (not .Values.admin.insecure) -}}
{{- fail "admin.existingSecret is required, for the admin port of a pod can be reached from elsewhere: banyan keygen --admin ops; put the line it prints into admin.keys; kubectl create secret generic banyan-admin --from-file=admin.keys; then --set admin.existingSecret=banyan-admin; or --set admin.insecure=true, with networkPolicy.enabled" -}}
{{- end -}}
{{- if and .Values.admin.existingSecret .Values.admin.insecure -}}
{{- fail "admin.insecure and admin.existingSecret exclude each other" -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas)) -}}
{{- fail "autoscaling.minReplicas is more than autoscaling.maxReplicas" -}}
{{- end -}}
{{- end -}}
