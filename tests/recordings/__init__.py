"""Every recorded vendor answer, through the HTTP surface of a real server."""
