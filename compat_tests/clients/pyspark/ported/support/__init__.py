"""What the ported cases are written with: the broker under test, streams, and the names of the originals."""
