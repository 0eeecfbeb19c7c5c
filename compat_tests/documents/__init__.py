"""Documents are correct: their commands run, and print what the pages show."""
