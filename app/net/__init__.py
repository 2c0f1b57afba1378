"""Outbound HTTP of tools."""

from app.net.client import MAX_BYTES, FetchResponse, fetch
from app.net.guard import refused

__all__ = ["MAX_BYTES", "FetchResponse", "fetch", "refused"]
