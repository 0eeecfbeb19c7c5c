"""An audit for people: on a terminal (`text`), and as a page (`page`) with pictures (`pictures`)."""
