"""``kwire sql --continuous``: a query of Spark SQL that goes on, exactly once, into a topic or a table.

`definition` is what a name stands for and what must stay the same after a restart, `views` makes topics tables of
Spark, `running` starts the query and waits. The source, the sink and the session are those of `kwire.spark`.
"""
