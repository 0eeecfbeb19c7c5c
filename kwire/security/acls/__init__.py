"""Access control lists: their vocabulary, and the rules by which they decide. Pure, like all of `kwire.security`."""
