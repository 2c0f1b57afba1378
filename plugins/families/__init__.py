"""One module per provider family: facts, no HTTP code, and no import of one another."""
