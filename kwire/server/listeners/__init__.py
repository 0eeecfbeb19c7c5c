"""What a broker's listeners demand of their clients: TLS, logins, and who the clients are then."""
