"""What one request of the page answers: functions of a cluster and a call, which return rows."""
