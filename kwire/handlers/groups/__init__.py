"""APIs on consumer groups: membership, committed offsets, and administration."""
