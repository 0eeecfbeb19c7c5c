"""Framing, connections, listeners and back-pressure. What a request means is none of this room's business."""
