"""What is in ``deploy/``: a unit of systemd, a compose file, a Helm chart for Kubernetes (docs/DEPLOYMENT.md)."""
