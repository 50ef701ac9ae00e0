{{/* The name of each object begins with that of the release, and its version is that of the chart. */}}
{{- define "class.name" -}}
{{ .Release.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* The node image without its architecture, as the images are named and as Stratos reads the label. */}}
{{- define "class.nodeImage" -}}
{{ .Values.nodeImageBase }}-{{ trimPrefix "v" .Chart.AppVersion }}-<< .NodeImageVersion >>
{{- end }}

{{/* The cloud controller manager knows a node by the instance's private name. */}}
{{- define "class.nodeRegistration" -}}
name: {{ `'{{ ds.meta_data.local_hostname }}'` }}
kubeletExtraArgs:
  - name: cloud-provider
    value: external
{{- end }}
