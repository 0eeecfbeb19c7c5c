"""The hard cases of writing exactly once, each with a real Spark."""
