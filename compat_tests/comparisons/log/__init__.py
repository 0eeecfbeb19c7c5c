"""Log files, compaction and DeleteRecords."""
