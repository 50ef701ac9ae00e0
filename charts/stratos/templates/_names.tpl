{{- define "stratos.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* At most 40 characters, so that every suffix of the chart still fits into a label or DNS name of 63. */}}
{{- define "stratos.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "stratos.selectorLabels" -}}
app.kubernetes.io/name: {{ include "stratos.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "stratos.ownLabels" -}}
{{ include "stratos.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
{{- end }}

{{- define "stratos.labels" -}}
{{- toYaml (merge (include "stratos.ownLabels" . | fromYaml) .Values.commonLabels) }}
{{- end }}

{{- /* The same, and the given labels over them: (dict "root" . "labels" (dict ...)). */}}
{{- define "stratos.labelsAnd" -}}
{{- toYaml (merge (deepCopy .labels) (include "stratos.labels" .root | fromYaml)) }}
{{- end }}

{{- define "stratos.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "stratos.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- /* An image from repository, tag and digest: (dict "root" . "image" .Values.image "tag" default). */}}
{{- define "stratos.image" -}}
{{- $repository := .image.repository }}
{{- with .root.Values.global.imageRegistry }}
{{- $parts := splitList "/" $repository }}
{{- /* What tells a registry from a folder, as for container runtimes. */}}
{{- if and (rest $parts) (regexMatch "[.:]|^localhost$" (first $parts)) }}
{{- $parts = rest $parts }}
{{- end }}
{{- $repository = join "/" (prepend $parts .) }}
{{- end }}
{{- if .image.digest -}}
{{ $repository }}@{{ .image.digest }}
{{- else -}}
{{ $repository }}:{{ .image.tag | default .tag }}
{{- end }}
{{- end }}

{{- define "stratos.schedulerName" -}}
{{ include "stratos.fullname" . }}-scheduler
{{- end }}

{{- /* The cluster's version as kube-scheduler's image is tagged, without what a platform appends to it. Helm makes v1.37.0 of a version that is cut to
v1.37: then it is the patch that Stratos was tested with, which any patch of the minor may be beside. */}}
{{- define "stratos.kubernetesVersion" -}}
{{- $v := semver (.Values.scheduler.kubernetesVersion | default .Capabilities.KubeVersion.Version) }}
{{- $tested := get (.Files.Get "files/generated/kubernetes-versions.yaml" | fromYaml) (include "stratos.kubernetesMinor" .) }}
{{- if and $tested (eq (int $v.Patch) 0) }}
{{- $tested }}
{{- else }}
{{- printf "v%d.%d.%d" $v.Major $v.Minor $v.Patch }}
{{- end }}
{{- end }}

{{- /* The definitions of this release as a list: of the node classes those that the cloud launches from. The fake cloud takes AWS's. */}}
{{- define "stratos.definitions" -}}
{{- range $path, $_ := .Files.Glob "files/generated/crds/*.yaml" }}
{{- $crd := $.Files.Get $path | fromYaml }}
{{- if or (ne $crd.spec.names.kind "KindNodeClass") (eq $.Values.cloudProvider "kind") }}
- {{- toYaml $crd | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{- define "stratos.kubernetesMinor" -}}
{{- $v := semver (.Values.scheduler.kubernetesVersion | default .Capabilities.KubeVersion.Version) }}
{{- printf "%d.%d" $v.Major $v.Minor }}
{{- end }}

{{- /* The minor whose configuration the scheduler gets: the cluster's, of the one after the newest the newest. Empty: there is none. */}}
{{- define "stratos.schedulerConfigMinor" -}}
{{- $v := semver (.Values.scheduler.kubernetesVersion | default .Capabilities.KubeVersion.Version) }}
{{- $here := include "stratos.kubernetesMinor" . }}
{{- $before := printf "%d.%d" $v.Major (sub $v.Minor 1) }}
{{- if .Files.Get (printf "files/generated/scheduler-config-%s.yaml" $here) }}
{{- $here }}
{{- else if .Files.Get (printf "files/generated/scheduler-config-%s.yaml" $before) }}
{{- $before }}
{{- end }}
{{- end }}

{{- define "stratos.webhookService" -}}
{{ include "stratos.fullname" . }}-webhook
{{- end }}

{{- define "stratos.extenderService" -}}
{{ include "stratos.fullname" . }}-extender
{{- end }}

{{- /* "true" where there is a certificate: admission is served then. */}}
{{- define "stratos.tls" -}}
{{- if or .Values.certManager.enabled .Values.tls.existingSecret }}true{{ end }}
{{- end }}

{{- define "stratos.tlsSecret" -}}
{{- .Values.tls.existingSecret | default (printf "%s-serving" (include "stratos.fullname" .)) }}
{{- end }}

{{- /* Where the key of the bootstrap tokens is. */}}
{{- define "stratos.bootstrapTokensSecret" -}}
{{- .Values.bootstrapTokens.existingSecret | default (printf "%s-bootstrap-tokens" (include "stratos.fullname" .)) }}
{{- end }}

{{- /* The client certificate that a scheduler shows to the extender. */}}
{{- define "stratos.schedulerClientSecret" -}}
{{- .Values.tls.schedulerClientSecret | default (printf "%s-scheduler-client" (include "stratos.fullname" .)) }}
{{- end }}

{{- /* One process, one simulated cloud. */}}
{{- define "stratos.replicas" -}}
{{- if eq .Values.cloudProvider "fake" }}1{{ else }}{{ .Values.replicaCount }}{{ end }}
{{- end }}

{{- define "stratos.pricesName" -}}
{{ include "stratos.fullname" . }}-prices
{{- end }}
