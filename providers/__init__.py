"""How to talk to vendors: wires, transport, authentication. Knows nothing of plugins or of the app."""
