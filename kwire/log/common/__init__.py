"""What all parts of the log share: settings, file names, checkpoints, log directories, open files."""
