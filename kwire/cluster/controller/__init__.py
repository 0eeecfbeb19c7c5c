"""The controller: decisions about topics, leaders, configuration and registrations, and this broker's membership."""
