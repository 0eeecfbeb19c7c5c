"""Small runs of the campaigns of access control lists."""
