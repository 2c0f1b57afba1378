"""The wires: decoders over recorded and made-up bytes, requests, errors, and the socket client."""
