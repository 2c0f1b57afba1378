"""What operators see of runs from outside: spans and metrics.

Law of this room: nothing of OpenTelemetry or Prometheus is imported before one of them is switched on, and nobody
else imports them at all. Whoever looks at a run is a subscriber of its emitter that lets every token pass; what it
does may fail, and the run goes on as if nobody had looked. Nobody who votes in secret is seen here.
"""
