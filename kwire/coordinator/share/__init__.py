"""The share coordinator (KIP-932): where share groups keep which records were delivered, and to what end."""
