"""What the database is asked about durable runs.

Law of this room: statements only. ``guard`` and ``lock`` come first in their transactions: on PostgreSQL they hold the
run's row until the end of it, on SQLite nobody else writes anyway.
"""

from __future__ import annotations

import typing as t

from sqlalchemy import BindParameter, Executable, bindparam, delete, func, insert, select, text, update

from app.store.db import Backend, Statement
from app.store.decision_rows import COLUMNS
from app.store.durable_tables import decisions, durable_runs, journal, run_logs
from app.store.run_rows import PAUSE
from app.store.tables import runs

_KEY = ("run_id", "path", "execution", "turn", "key")
_STEP = ("path", "execution", "turn", "key", "kind", "state", "input_hash", "value", "position")
_WRITTEN = ("run_id", *_STEP, "owner_epoch", "written_at")
_AGAIN = tuple(name for name in _WRITTEN if name not in (*_KEY, "position"))
#: Answered or expired, and the run has not taken note of it.
_LEFT = "answered_at IS NOT NULL AND taken_at IS NULL"

_TEXT = {
    "write": f"""
        INSERT INTO journal ({", ".join(_WRITTEN)}) VALUES ({", ".join(f":{name}" for name in _WRITTEN)})
        ON CONFLICT ({", ".join(_KEY)}) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _AGAIN)}
    """,
    "ask": f"""
        INSERT INTO decisions ({", ".join(COLUMNS)}) VALUES ({", ".join(f":{name}" for name in COLUMNS)})
        ON CONFLICT ({", ".join(_KEY)}) DO NOTHING
    """,
    "take": f"UPDATE decisions SET taken_at = :at WHERE id = :decision AND run_id = :run AND {_LEFT}",
    # One that was answered meanwhile is no work any more: a paused run would be taken over for it again and again.
    "withdraw": """
        UPDATE decisions SET state = CASE state WHEN 'open' THEN 'cancelled' ELSE state END,
            taken_at = CASE state WHEN 'open' THEN NULL ELSE :at END
        WHERE id = :decision AND run_id = :run AND state <> 'cancelled' AND taken_at IS NULL
    """,
    "left": f"SELECT 1 FROM decisions WHERE run_id = :run AND {_LEFT} LIMIT 1",
    "due": f"""
        SELECT 1 FROM runs WHERE id = :run
            AND (stop_requested IS NOT NULL OR EXISTS (SELECT 1 FROM decisions WHERE run_id = :run AND {_LEFT}))
    """,
    "reserve": "UPDATE runs SET seq_reserved = :upto WHERE id = :run AND seq_reserved < :upto",
    "waited": "UPDATE runs SET human_wait_ms = :waited, paused_at = NULL WHERE id = :run",
    "release": "UPDATE runs SET owner_id = NULL WHERE id = :run",
    # The beat is compared once more here: an owner that woke up keeps its runs.
    "claim": """
        UPDATE runs SET owner_id = :mine, owner_epoch = owner_epoch + 1, status = 'running'
        WHERE id = :run AND owner_epoch = :epoch AND ended_at IS NULL AND durable = 1 AND (
            owner_id IS NULL OR owner_id = :theirs
            AND NOT EXISTS (SELECT 1 FROM owners WHERE id = :theirs AND beat <> :beat)
        )
    """,
    "answered": """
        SELECT DISTINCT d.run_id FROM decisions AS d JOIN runs AS r ON r.id = d.run_id
        WHERE d.answered_at IS NOT NULL AND d.taken_at IS NULL
            AND r.ended_at IS NULL AND r.owner_id IS NULL AND r.status = 'paused'
        ORDER BY d.run_id LIMIT :limit
    """,
    "released": """
        SELECT id FROM runs WHERE owner_id IS NULL AND ended_at IS NULL AND status = 'running' AND durable = 1
        ORDER BY id LIMIT :limit
    """,
    "stopping": """
        SELECT id FROM runs WHERE ended_at IS NULL AND stop_requested IS NOT NULL
            AND owner_id IS NULL AND status = 'paused' AND durable = 1
        ORDER BY id LIMIT :limit
    """,
    "carried": """
        SELECT id FROM runs WHERE owner_id = :owner AND ended_at IS NULL AND status <> 'paused' AND durable = 1
        ORDER BY id LIMIT :limit
    """,
    "old_logs": """
        SELECT DISTINCT l.run_id FROM run_logs AS l JOIN runs AS r ON r.id = l.run_id
        WHERE r.ended_at < :before LIMIT :limit
    """,
}


def prepare(backend: Backend) -> dict[str, Statement]:
    """All of them, by name."""
    statements: dict[str, Executable] = {name: text(sql) for name, sql in _TEXT.items()}
    made = {name: backend.prepare(statement) for name, statement in {**statements, **_built()}.items()}
    assert made["write"].names == _WRITTEN
    assert made["ask"].names == COLUMNS
    return made


def _built() -> dict[str, Executable]:
    r, j, log, d = runs.c, journal.c, run_logs.c, decisions.c
    run: BindParameter[str] = bindparam("run")
    part = (j.run_id == run, j.execution == bindparam("execution"))
    below = func.substr(j.path, 1, bindparam("length")) == bindparam("prefix")
    mine = (r.owner_id == bindparam("owner"), r.owner_epoch == bindparam("epoch"), r.ended_at.is_(None))
    so_far: dict[t.Any, t.Any] = {r[name]: bindparam(f"new_{name}") for name in (*PAUSE, "paused_at")}
    asked = [d[name] == bindparam(name) for name in _KEY]
    return {
        "begin": insert(durable_runs),
        "guard": select(r.id).where(r.id == run, *mine).with_for_update(key_share=True),
        "lock": select(runs).where(r.id == run).with_for_update(key_share=True),
        "forget": delete(journal).where(*part, j.path == bindparam("path")),
        "forget_all": delete(journal).where(*part, (j.path == bindparam("path")) | below),
        "log": insert(run_logs),
        "pause": update(runs).where(r.id == run).values({**so_far, r.status: "paused", r.owner_id: None}),
        "kept": select(durable_runs.c.started, durable_runs.c.documents).where(durable_runs.c.run_id == run),
        "steps": select(*[j[name] for name in _STEP]).where(j.run_id == run).order_by(j.position),
        "logs": select(log.first, log.last, log.data)
        .where(log.run_id == run, log.last > bindparam("after"))
        .order_by(log.first),
        "last": select(func.max(log.last)).where(log.run_id == run),
        "drop_logs": delete(run_logs).where(log.run_id == run),
        "asked": select(*[d[name] for name in COLUMNS]).where(*asked),
        "decisions": select(*[d[name] for name in COLUMNS])
        .where(d.run_id == run)
        .order_by(d.created_at, d.id),
    }
