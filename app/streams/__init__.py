"""Streams: what a surface makes of a run's envelopes. Pure: no socket, request, store or clock."""
