"""The way back: from a table into a topic. `tables` finds a table's files, `reading` gives their rows in order,
`target` is the topic, `restore` moves them."""
