"""What tests and campaigns of ``kwire audit`` share: the command in their process, topics with planted faults."""
