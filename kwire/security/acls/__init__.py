"""Access control lists: the vocabulary of operations and resources. Pure, like all of `kwire.security`."""
