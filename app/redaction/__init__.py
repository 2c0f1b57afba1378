"""What must not be shown: masking of secrets in text that operators read."""
