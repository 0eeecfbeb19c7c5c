"""From bytes that are read to batches that brokers have acknowledged: what ``kwire produce`` is made of."""
