"""Rolling restarts under load: upgrades, certificates, passwords, and securing an open cluster."""
