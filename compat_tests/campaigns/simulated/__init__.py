"""Short runs of campaigns on simulated clusters."""
