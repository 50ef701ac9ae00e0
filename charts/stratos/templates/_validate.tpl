{{- /* What values.schema.json cannot say in words that help. */}}
{{- define "stratos.validate" -}}
{{- if and .Values.certManager.enabled .Values.tls.existingSecret }}
{{- fail "tls.existingSecret: set certManager.enabled=false as well, since a certificate comes from one of the two" }}
{{- end }}
{{- if and .Values.extender.expose .Values.scheduler.enabled }}
{{- fail "extender.expose: set scheduler.enabled=false as well. An exposed extender takes only requests over mutual TLS, for a kube-scheduler on the control plane; the scheduler in the pod asks over loopback in plain HTTP, and Stratos has one listener for both" }}
{{- end }}
{{- if and .Values.extender.expose (not (include "stratos.tls" .)) }}
{{- fail "extender.expose: needs a certificate, by certManager.enabled=true or tls.existingSecret: whoever reaches the extender can start nodes" }}
{{- end }}
{{- if and .Values.bootstrapTokens.enabled (not .Values.certManager.enabled) (not .Values.bootstrapTokens.existingSecret) }}
{{- fail "bootstrapTokens.existingSecret: required with certManager.enabled=false: the key of the tokens comes from one of the two" }}
{{- end }}
{{- if and (or .Values.prices.instances .Values.prices.volumes) (not .Values.prices.currency) }}
{{- fail "prices.currency: required with prices.instances and prices.volumes, such as USD" }}
{{- end }}
{{- if and .Values.hostNetwork (not (include "stratos.tls" .)) }}
{{- fail "hostNetwork: needs a certificate, by certManager.enabled=true or tls.existingSecret: every process of the host reaches the extender on loopback, and without a certificate it asks for none of its clients" }}
{{- end }}
{{- if and .Values.hostNetwork .Values.scheduler.enabled .Values.tls.existingSecret (not .Values.tls.schedulerClientSecret) }}
{{- fail "tls.schedulerClientSecret: required with hostNetwork=true and tls.existingSecret: the scheduler in the pod shows this certificate to the extender" }}
{{- end }}
{{- range ((.Values.scheduler.plugins).filter).enabled }}
{{- if has .name (list "TaintToleration" "NodeUnschedulable") }}
{{- fail (printf "scheduler.plugins.filter.enabled: leave out %s: the extender makes this check itself, and kube-scheduler would drop every standby node before it asks the extender" .name) }}
{{- end }}
{{- end }}
{{- range .Values.scheduler.extraArgs }}
{{- $flag := regexFind "^--[^= ]+" . }}
{{- if or (hasPrefix "--leader-elect" $flag) (has $flag (list "--config" "--secure-port" "--authentication-skip-lookup")) }}
{{- fail (printf "scheduler.extraArgs: leave out %s, which the chart decides. The configuration comes from scheduler.plugins, scheduler.pluginConfig and scheduler.percentageOfNodesToScore, the port from ports.scheduler" $flag) }}
{{- end }}
{{- end }}
{{- $taken := dict }}
{{- range $name, $port := .Values.ports }}
{{- if hasKey $taken (toString $port) }}
{{- fail (printf "ports.%s: %v is ports.%s already; all of them listen at one address" $name $port (get $taken (toString $port))) }}
{{- end }}
{{- $_ := set $taken (toString $port) $name }}
{{- end }}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) }}
{{- fail "serviceAccount.name: required with serviceAccount.create=false; the rights of Stratos shall not go to the namespace's default account" }}
{{- end }}
{{- if and .Values.scheduler.enabled (not (include "stratos.schedulerConfigMinor" .)) }}
{{- $minors := list }}
{{- range $path, $_ := .Files.Glob "files/generated/scheduler-config-*.yaml" }}
{{- $minors = append $minors ($path | base | trimPrefix "scheduler-config-" | trimSuffix ".yaml") }}
{{- end }}
{{- fail (printf "scheduler.enabled: this chart has a scheduler configuration for Kubernetes %s, and the cluster is %s: use a chart that supports it, or set scheduler.enabled=false" (join ", " $minors) (.Values.scheduler.kubernetesVersion | default .Capabilities.KubeVersion.Version)) }}
{{- end }}
{{- end }}
