"""The prompt of ``kwire sql``: `loop` reads statements and answers them, `completion` completes what is typed,
`commands` are those that begin with a backslash."""
