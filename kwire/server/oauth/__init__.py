"""The keys with which listeners check OAuth tokens: fetched at start, kept, and fetched anew when they change."""
