"""OAuth 2 bearer tokens (RFC 6750, 7519): the tokens of OAUTHBEARER, their checks and principals. Pure."""
