"""The broker's side of the metrics endpoint: a snapshot in slices, and the process that renders it, `kwire.metrics`."""
