"""Outbound HTTP of tools. Imports nothing, since a process without gevent uses part of it."""
