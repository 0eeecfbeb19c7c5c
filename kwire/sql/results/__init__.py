"""What becomes of the rows of a query: `running` takes them from DuckDB, `texts` says what they are as text, `table`,
`lines` and `destinations` write them."""
