"""The documentation's build tools are importable by the tests that run them."""
