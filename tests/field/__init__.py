"""Field cases: what broke in servers like this one, each with the value that is right here."""
