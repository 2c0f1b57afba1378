"""What may be seen by whom: random workflows whose every text is marked, and a search of everything that is told."""
