"""Helpers of tests: what starts servers, speaks the protocol, finds the material beside the checkout."""
