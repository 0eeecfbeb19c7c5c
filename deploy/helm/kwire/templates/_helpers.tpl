{{- define "kwire.labels" -}}
app.kubernetes.io/name: kwire
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- /* KAFKA_ and the property: "_" becomes "__", "-" becomes "___", "." becomes "_". */}}
{{- define "kwire.variable" -}}
KAFKA_{{ . | replace "_" "__" | replace "-" "___" | replace "." "_" | upper }}
{{- end }}
