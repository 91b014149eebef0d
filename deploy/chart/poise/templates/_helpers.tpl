{{- define "poise.name" -}}
{{- $name := ternary .Release.Name (printf "%s-poise" .Release.Name) (contains "poise" .Release.Name) -}}
{{- $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "poise.labels" -}}
app.kubernetes.io/name: poise
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Of objects that the pods are not selected by: they may change from version to version. */}}
{{- define "poise.metadata" -}}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "poise.labels" . | nindent 2 }}
  app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "poise.serviceAccount" -}}
{{- $own := ternary (include "poise.name" .) "default" .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default $own -}}
{{- end -}}

{{/* The gateway file: what the chart derives, then the user's fields over it. */}}
{{- define "poise.gateway" -}}
{{- $made := dict "listen" (dict "host" "0.0.0.0" "port" 8000) -}}
{{- if .Values.envSecret -}}
{{- $_ := set $made "admin" (dict "host" "0.0.0.0" "port" 8001 "token_env" "POISE_ADMIN_TOKEN") -}}
{{- end -}}
{{- if .Values.share.enabled -}}
{{- if not .Values.envSecret -}}
{{- fail "share needs envSecret: a Secret with POISE_SHARE_KEY, the key that all gateways show one another" -}}
{{- end -}}
{{- $peers := printf "%s-peers.%s.svc:%v" (include "poise.name" .) .Release.Namespace .Values.share.port -}}
{{- $listen := printf "0.0.0.0:%v" .Values.share.port -}}
{{- $_ := set $made "share" (dict "listen" $listen "dns" $peers "key_env" "POISE_SHARE_KEY") -}}
{{- end -}}
{{- if .Values.engines.selector -}}
{{- $dns := printf "%s-engines.%s.svc:%v" (include "poise.name" .) .Release.Namespace .Values.engines.port -}}
{{- $_ := set $made "discover" (dict "dns" $dns) -}}
{{- end -}}
{{- $file := mergeOverwrite $made (deepCopy .Values.gateway) -}}
{{- $discover := $file.discover | default dict -}}
{{- if not (or $file.engines $discover.dns $discover.file) -}}
{{- fail "the gateway has no engines: give engines.selector (labels of their pods), gateway.engines or gateway.discover" -}}
{{- end -}}
{{- toYaml $file -}}
{{- end -}}

{{/* Ports of the gateway's container as a mapping from name to number. */}}
{{- define "poise.ports" -}}
{{- $file := include "poise.gateway" . | fromYaml -}}
http: {{ $file.listen.port | int }}
{{- with $file.admin }}
{{- if and .port (ne (.host | default "127.0.0.1") "127.0.0.1") }}
admin: {{ .port | int }}
{{- end }}
{{- end }}
{{- with $file.envoy }}
picker: {{ .port | default 9002 | int }}
{{- end }}
{{- if .Values.share.enabled }}
peers: {{ .Values.share.port | int }}
{{- end }}
{{- end -}}
