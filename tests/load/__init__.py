"""Many streams at once: leaving, shutting down, reading slowly."""
