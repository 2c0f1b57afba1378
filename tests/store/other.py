"""Other processes at the same database, each a script that is told what to do by its arguments.

A line on standard output says how far one is.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import typing as t

import gevent

from app.clock import SystemClock
from app.config import Settings
from app.store import StaleOwner, Store, StoreFailed
from app.store.audit import told
from app.store.checkpoints import Checkpoint
from app.store.files import FilesFull
from app.store.spending import Spent
from tests.store import rows
from tests.support import commands


def start(name: str, settings: Settings, *arguments: object) -> commands.Piped:
    """Start one of the scripts below."""
    args = [name, settings.database_url, *map(str, arguments)]
    return commands.Piped(args, os.environ, "tests.store.other")


def finish(process: commands.Piped) -> str:
    """Let a script go on from where it waits; its remaining output once it has ended well."""
    output = process.communicate("\n", 100)
    assert process.returncode == 0, output
    return output


def go_on(process: commands.Piped) -> None:
    """Let a script go on from where it waits."""
    process.stdin.write("\n")
    process.stdin.flush()


def line(process: commands.Piped) -> str:
    """Wait for the script's next line."""
    return process.stdout.readline().rstrip("\n")


def _say(*words: object) -> None:
    print(*words, flush=True)


def _wait() -> None:
    sys.stdin.readline()


def lock(settings: Settings) -> None:
    """Hold SQLite's write lock until told to let go."""
    import sqlite3

    connection = sqlite3.connect(settings.database_url.removeprefix("sqlite:///"), isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE catalog SET generation = generation + 0")
    _say("locked")
    _wait()
    connection.execute("COMMIT")


def migrate(settings: Settings) -> None:
    """Migrate when told to."""
    _say("ready")
    _wait()
    Store(settings).migrate()


def run_many(settings: Settings, greenlets: str, each: str) -> None:
    """Runs in many greenlets at once, each waiting for its record; and what failed."""
    store = Store(settings)
    failed: list[str] = []
    clock = SystemClock()
    _say("ready")
    _wait()

    def many() -> None:
        for _ in range(int(each)):
            run_id = clock.new_id("run")
            try:
                store.runs.started(rows.started(run_id))
                store.runs.finished(
                    rows.ended(run_id), [rows.block("a"), rows.block("b")], [rows.USAGE]
                ).wait()
            except StoreFailed as error:
                failed.append(error.message)

    gevent.joinall([gevent.spawn(many) for _ in range(int(greenlets))], raise_error=True)
    store.close()
    _say(len(failed), *failed[:1])


def run_open(settings: Settings, run_id: str, owner_id: str = "") -> None:
    """Start a run and stay."""
    store = Store(settings)
    store.runs.started(rows.started(run_id, owner_id=owner_id or None))
    store.keys.create("marks the start as committed", ["run"])
    _say("running")
    _wait()
    store.runs.finished(rows.ended(run_id, owner_id=owner_id or None), []).wait()


def run_durable(settings: Settings, run_id: str) -> None:
    """Begin a durable run, save a checkpoint and stay; then save another, and say how that went."""
    store = Store(settings)
    store.durable.begin(rows.started(run_id), {}, {}).wait()
    store.durable.save(run_id, store.owner_id, 1, Checkpoint([rows.step("a", 0)], seq_reserved=1000)).wait()
    _say("running")
    _wait()
    try:
        store.durable.save(run_id, store.owner_id, 1, Checkpoint([rows.step("b", 1)])).wait()
    except StaleOwner as error:
        _say(error.code)
    store.close()


def race(settings: Settings, decision_id: str, who: str, times: str, *run_ids: str) -> None:
    """Answer a decision many times and claim every run, all at once, when told to. Says which runs it got, and of each
    answer whether it won and who is known to have answered.
    """
    store = Store(settings)
    store.runs.heartbeat(store.owner_id)
    store.keys.create("opens the connection", ["run"])
    _say("ready")
    _wait()
    names = [f"{who}-{n}" for n in range(int(times))]
    answers = [gevent.spawn(store.decisions.answer, decision_id, {"by": name}, name) for name in names]
    claims = [gevent.spawn(store.durable.claim, run_id, store.owner_id) for run_id in run_ids]
    gevent.joinall([*answers, *claims], raise_error=True)
    _say(*[run_id for run_id, each in zip(run_ids, claims, strict=True) if each.value is not None])
    for name, each in zip(names, answers, strict=True):
        won, row = each.value
        _say(name, won, row.answered_by, row.answer["by"])
    store.close()


def hits(settings: Settings, key: str, greenlets: str, each: str) -> None:
    """Count in many greenlets at once, when told to. Says the counts they got."""
    store = Store(settings)
    _say("ready")
    _wait()
    got: list[int] = []

    def many() -> None:
        got.extend(store.counters.hit(key, 3600).value for _ in range(int(each)))

    gevent.joinall([gevent.spawn(many) for _ in range(int(greenlets))], raise_error=True)
    store.close()
    _say(*got)


def places(settings: Settings, key: str, most: str, greenlets: str, kind: str) -> None:
    """Take places, slide a window, or hold ten tokens of a budget for so many, once in each of many greenlets at once,
    when told to. Says how many could.
    """
    store, clock = Store(settings), SystemClock()
    _say("ready")
    _wait()
    got: list[bool] = []

    def fits(spent: Spent, others: Spent, _: int) -> bool:
        return spent.tokens + others.tokens + 10 <= 10 * int(most)

    def one() -> None:
        if kind == "take":
            got.append(store.counters.take(key, int(most), 3600) is not None)
        elif kind == "slide":
            got.append(store.counters.slide(key, int(most), 3600))
        else:
            call = clock.new_id("call")
            got.append(store.spending.hold(key, "day", call, Spent(10, 0.5), fits).wait().is_held)

    gevent.joinall([gevent.spawn(one) for _ in range(int(greenlets))], raise_error=True)
    store.close()
    _say(sum(got))


def holding(settings: Settings, subject: str, period: str, tokens: str) -> None:
    """Hold something of a budget, say so, and wait to be killed."""
    store = Store(settings)
    store.spending.hold(subject, period, "call_1", Spent(int(tokens), 0.0), lambda *_: True).wait()
    _say("held")
    _wait()


def claims(settings: Settings, greenlets: str, *keys: str) -> None:
    """Claim keys in many greenlets at once, when told to. Says which run each key is of, a line for each claim."""
    store, clock = Store(settings), SystemClock()
    _say("ready")
    _wait()
    got: list[tuple[str, str]] = []

    def many() -> None:
        for key in keys:
            got.append(
                (key, store.idempotency.claim(bytes.fromhex(key), b"body", clock.new_id("run")).run_id)
            )

    gevent.joinall([gevent.spawn(many) for _ in range(int(greenlets))], raise_error=True)
    for key, run_id in got:
        _say(key, run_id)
    store.close()


def spend(settings: Settings, subject: str, period: str, greenlets: str, each: str) -> None:
    """Add to a total in many greenlets at once, when told to. Says the tokens it stood at each time."""
    store = Store(settings)
    _say("ready")
    _wait()
    got: list[int] = []

    def many() -> None:
        got.extend(store.spending.add(subject, period, 3, 0.25).wait().tokens for _ in range(int(each)))

    gevent.joinall([gevent.spawn(many) for _ in range(int(greenlets))], raise_error=True)
    store.close()
    _say(*got)


def leave(settings: Settings, run_id: str) -> None:
    """End without closing the store."""
    store = Store(settings)
    store.runs.started(rows.started(run_id))
    store.runs.finished(rows.ended(run_id), [])


def full_disk(settings: Settings) -> None:
    """Write until no file may grow any more, then once with room again."""
    store = Store(settings)
    store.keys.create("opens the connection", ["run"])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    code = ""
    for _ in range(200):
        try:
            store.workflows.save({"filler": "x" * 20_000}, "big")
        except StoreFailed as error:
            code = error.code
            break
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    store.workflows.save({}, "small", "wf_after")
    store.close()
    _say(code)


def fork(settings: Settings) -> None:
    """Use a store in a child of the process that has written with it."""
    store = Store(settings)
    store.keys.create("starts the thread", ["run"])
    child = os.fork()
    if child == 0:
        try:
            store.keys.create("in the child", ["run"])
        except StoreFailed:
            os._exit(7)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    _say(os.waitstatus_to_exitcode(status))
    store.close()


def upload(settings: Settings, owner: str, together: str, size: str, most: str, times: str) -> None:
    """Keep files one after the other, when told to. Says how many it could."""
    store = Store(settings)
    store.keys.create("opens the connection", ["run"])
    _say("ready")
    _wait()
    kept = 0
    for _ in range(int(times)):
        try:
            store.files.put(
                owner, "a", "text/plain", bytes(int(size)), None, int(most), together=together or None
            )
            kept += 1
        except FilesFull:
            pass
    store.close()
    _say(kept)


def killed_in_note(settings: Settings) -> None:
    """Make a key with its row in the audit log, then die where the row of a second one would be written."""
    store = Store(settings)
    store.keys.create("told", note=store.audit.note("cli", told("key.create", "key:1")))

    def die(_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    store.keys.create("not told", note=store.audit.note("cli", t.cast(t.Any, die)))


_SCRIPTS: dict[str, t.Callable[..., None]] = {
    script.__name__: script
    for script in (
        lock,
        migrate,
        run_many,
        run_open,
        run_durable,
        race,
        hits,
        places,
        claims,
        holding,
        spend,
        leave,
        full_disk,
        fork,
        upload,
        killed_in_note,
    )
}


def main(args: list[str]) -> None:
    """Run the script ``args`` begins with."""
    name, database_url, *arguments = args
    _SCRIPTS[name](Settings(database_url=database_url), *arguments)
