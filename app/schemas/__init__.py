"""Schemas derived from dataclasses, request bodies, JSON Schema."""
