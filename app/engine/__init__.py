"""Runs: their scope, scheduler, emitter, log, journal and registry. Knows no HTTP, no SQL, no client frame."""
