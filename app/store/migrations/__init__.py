"""Migrations: numbered steps from any released schema to this program's.

Law of this room: a released step never changes. A step works on SQLite and PostgreSQL.
"""

#: The revision this program needs; a test compares it with the newest step.
HEAD = "0010"
