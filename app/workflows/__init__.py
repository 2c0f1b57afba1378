"""Workflow documents: parsed, checked, compiled."""
