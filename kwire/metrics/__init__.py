"""The process that serves metrics to Prometheus and pushes them by OTLP, under the names that dashboards query.

A broker starts ``python -m kwire.metrics`` (`kwire.server.metrics_endpoint`), with settings on standard input. It asks
the brokers for a snapshot with each scrape, and renders it with prometheus_client; `otel` pushes the same series. What
lives elsewhere: the metrics themselves (`kwire.base.metrics`), and clients' own metrics (KIP-714,
`kwire.server.telemetry`).
"""
