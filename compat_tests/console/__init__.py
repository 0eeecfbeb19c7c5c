"""The console's page in Debian's Chromium, with clusters of both kinds."""
