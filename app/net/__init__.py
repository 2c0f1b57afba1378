"""Outbound HTTP of tools."""

from app.net.client import FetchResponse, fetch
from app.net.guard import refused

__all__ = ["FetchResponse", "fetch", "refused"]
