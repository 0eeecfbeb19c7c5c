"""Random schedules of the coordinators: `campaign` is the command line."""
