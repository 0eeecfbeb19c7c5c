"""Processes: helpers of the broker, and how processes beside the broker leave it the processors."""
