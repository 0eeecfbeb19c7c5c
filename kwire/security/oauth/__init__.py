"""OAuth 2 bearer tokens (RFC 6750, 7519): how the tokens of OAUTHBEARER are checked, and who they speak for. Pure."""
