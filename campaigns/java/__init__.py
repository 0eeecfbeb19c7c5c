"""Java programs that campaigns ask, and the campaigns' loop around them."""
