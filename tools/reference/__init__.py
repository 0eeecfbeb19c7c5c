"""The pages of `docs/reference`, written from the code: properties, APIs, commands, metrics."""
