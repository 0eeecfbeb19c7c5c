"""Backups of a broker's data directory in an object store or a folder, and a data directory made of one.

`cut` decides which bytes of which files are committed, `creating` copies them and writes the list of them last,
`restoring` makes a data directory of the list. `manifest` is the list, `stores` are the places. What lives elsewhere:
tables of records (`kwire.archive.targets`), which other programs read.
"""
