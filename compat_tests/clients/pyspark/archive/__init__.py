"""Archives by Spark jobs."""
