"""Records on the command line: columns, formats, filters, JSON Lines, batches."""
