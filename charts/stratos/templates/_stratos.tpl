{{- /* The Stratos container, without a restart policy. */}}
{{- define "stratos.container" -}}
name: stratos
image: {{ include "stratos.image" (dict "root" . "image" .Values.image "tag" .Chart.AppVersion) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args:
  - --cluster-name={{ .Values.clusterName }}
  - --cloud-provider={{ .Values.cloudProvider }}
  - --namespace={{ .Release.Namespace }}
  - --leader-elect=true
  - --install-crds=false
  - --metrics-bind-address=:{{ .Values.ports.metrics }}
  - --health-probe-bind-address=:{{ .Values.ports.health }}
  {{- if include "stratos.tls" . }}
  - --webhook-port={{ .Values.ports.webhook }}
  - --cert-dir=/etc/stratos/tls
  {{- end }}
  {{- if .Values.extender.expose }}
  - --extender-bind-address=:{{ .Values.ports.extender }}
  {{- else }}
  - --extender-bind-address=127.0.0.1:{{ .Values.ports.extender }}
  {{- end }}
  {{- /* Every process of the host reaches its loopback. */}}
  {{- if or .Values.extender.expose .Values.hostNetwork }}
  - --client-ca=/etc/stratos/tls/ca.crt
  {{- end }}
  - --extender-scheduler-names={{ concat (list .Values.scheduler.name) .Values.extender.schedulerNames | uniq | join "," }}
  {{- if not .Values.nominate }}
  - --nominate=false
  {{- end }}
  {{- with .Values.logLevel }}
  - --zap-log-level={{ . }}
  {{- end }}
  {{- with .Values.logFormat }}
  - --zap-encoder={{ . }}
  {{- end }}
  {{- range $operation, $limit := .Values.rateLimits }}
  - --rate-limit-{{ kebabcase $operation }}={{ $limit }}
  {{- end }}
  {{- /* The account's limits are shared out: every replica starts nodes. */}}
  - --rate-limit-share={{ divf 1 (include "stratos.replicas" . | float64) }}
  {{- if .Values.bootstrapTokens.enabled }}
  - --bootstrap-token-key-file=/etc/stratos/bootstrap-tokens/tls.key
  {{- end }}
  {{- if .Values.prices.currency }}
  - --prices-file=/etc/stratos/prices/prices.yaml
  {{- end }}
  {{- with .Values.extraArgs }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- include "stratos.environment" . }}
ports:
  - name: metrics
    containerPort: {{ .Values.ports.metrics }}
  - name: probes
    containerPort: {{ .Values.ports.health }}
  {{- if include "stratos.tls" . }}
  - name: webhook
    containerPort: {{ .Values.ports.webhook }}
  {{- end }}
  {{- if .Values.extender.expose }}
  - name: extender
    containerPort: {{ .Values.ports.extender }}
  {{- end }}
# Ready means: caches are synced. Filling them takes seconds, in the largest clusters more.
startupProbe:
  httpGet: {path: /readyz, port: probes}
  periodSeconds: 1
  failureThreshold: 180
readinessProbe:
  httpGet: {path: /readyz, port: probes}
  periodSeconds: 2
  timeoutSeconds: 2
livenessProbe:
  httpGet: {path: /healthz, port: probes}
  periodSeconds: 10
  timeoutSeconds: 5
# Goes on answering while the API server and the scheduler learn that this pod is going.
lifecycle:
  preStop:
    sleep: {seconds: 5}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
{{- with .Values.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if or (include "stratos.tls" .) .Values.bootstrapTokens.enabled .Values.prices.currency .Values.extraVolumeMounts }}
volumeMounts:
  {{- if include "stratos.tls" . }}
  - name: tls
    mountPath: /etc/stratos/tls
    readOnly: true
  {{- end }}
  {{- if .Values.bootstrapTokens.enabled }}
  - name: bootstrap-tokens
    mountPath: /etc/stratos/bootstrap-tokens
    readOnly: true
  {{- end }}
  {{- if .Values.prices.currency }}
  - name: prices
    mountPath: /etc/stratos/prices
    readOnly: true
  {{- end }}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}

{{- /* The kube-scheduler beside it. */}}
{{- define "stratos.schedulerContainer" -}}
name: scheduler
image: {{ include "stratos.image" (dict "root" . "image" .Values.scheduler.image "tag" (include "stratos.kubernetesVersion" .)) | quote }}
imagePullPolicy: {{ .Values.scheduler.image.pullPolicy }}
command:
  - kube-scheduler
  - --config=/etc/stratos/scheduler/scheduler.yaml
  - --secure-port={{ .Values.ports.scheduler }}
  # Who asks for its metrics is found out by TokenReview alone, so that it needs to read nothing in kube-system.
  - --authentication-skip-lookup=true
  {{- with .Values.scheduler.extraArgs }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
ports:
  - name: scheduler
    containerPort: {{ .Values.ports.scheduler }}
# A scheduler whose caches never sync, such as one newer than the API server, is seen here.
readinessProbe:
  httpGet: {path: /readyz, port: scheduler, scheme: HTTPS}
  periodSeconds: 2
  timeoutSeconds: 2
# Asks Stratos, on purpose: a scheduler without its extender is ended and so gives its lease to one that has it.
livenessProbe:
  httpGet: {path: /readyz, port: {{ .Values.ports.health }}}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 3
resources:
  {{- toYaml .Values.scheduler.resources | nindent 2 }}
{{- with .Values.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  - name: scheduler
    mountPath: /etc/stratos/scheduler
    readOnly: true
  {{- if .Values.hostNetwork }}
  - name: scheduler-client
    mountPath: /etc/stratos/scheduler-client
    readOnly: true
  {{- end }}
{{- end }}

{{- /* Of the pods of Stratos: account, where they may run, and what a cluster asks of each pod. */}}
{{- define "stratos.podSettings" -}}
serviceAccountName: {{ include "stratos.serviceAccountName" . | quote }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
enableServiceLinks: {{ .Values.enableServiceLinks }}
{{- with .Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
affinity:
  {{- if .Values.affinity }}
  {{- toYaml .Values.affinity | nindent 2 }}
  {{- else }}
  # Nodes of a pool are stopped, by Stratos.
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
        - matchExpressions:
            - {key: stratos.sh/pool, operator: DoesNotExist}
  {{- end }}
{{- end }}

{{- /* By which a container reaches the cloud. */}}
{{- define "stratos.environment" -}}
{{- if or .Values.aws.region .Values.extraEnv }}
env:
  {{- with .Values.aws.region }}
  - name: AWS_REGION
    value: {{ . | quote }}
  {{- end }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- with .Values.envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
