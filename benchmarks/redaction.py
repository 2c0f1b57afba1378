"""What redaction costs: processor time for each token, characters that are held back, and how late that makes a reader.

Law of this room: the emitter is measured as a run uses it, in this process alone, off and on in turns; delays follow
from what came out after which token, so they do not depend on the machine.

    python -m benchmarks.redaction            # prints the tables of docs/redaction.md
"""

from __future__ import annotations

import secrets
import statistics
import time
import typing as t
from collections.abc import Callable, Sequence

from app import encoding
from app import events as ev
from app.clock import SystemClock
from app.engine.emitter import Emitter
from app.engine.redacting import RedactingEmitter
from app.engine.redaction import Redaction, Rules
from app.engine.run_log import RunLog
from app.redaction.finders import Finder, finders_of
from app.redaction.known import KnownValues
from app.redaction.masking import Masking
from app.redaction.policy import Policy
from app.redaction.sieve import Sieve
from app.state import RunState
from plugins.detectors import DETECTORS

PROSE = (
    "Thank you for your message. The order was sent on Monday and should arrive within the week; if it does not, "
    "write to us and we will look into it. The carrier keeps parcels for ten days, and the shop is open until six. "
)
NUMBERS = (
    "In 2024 we sold 1,284 units at 19.90, in 2023 it was 1,190 at 18.50 (a rise of 7.9 %). Meetings are on "
    "2025-03-14 at 10:30 in room 12, and on 2025-03-21 at 14:00 in room 7; bring 3 copies of form 27-B. "
)
RATES = (20, 50, 100)
_ROUNDS, _TOKENS = 15, 2_000
#: Characters of a whole text.
_WHOLE = 1_000_000


def tokens(text: str, count: int = _TOKENS) -> list[str]:
    """Text as models send it: words with the space before them, long ones in two pieces."""
    found: list[str] = []
    for place, word in enumerate(text.split(" ") * (count // len(text.split(" ")) + 1)):
        piece = word if not place else f" {word}"
        found += [piece[:5], piece[5:]] if len(piece) > 7 else [piece]
    return found[:count]


class _Fixed:
    """Stands where a run's redaction stands, with the same rules for every block."""

    broken = False

    def __init__(self, finders: Sequence[Finder], strict: bool) -> None:
        masking = Masking(finders)
        self._rules = Rules(masking, masking, masking, masking, masking, strict, strict)

    def renew(self) -> None:
        """Nothing changes."""

    def of(self, block: str) -> Rules:
        """See :meth:`app.engine.redaction.Redaction.of`."""
        return self._rules


def emitter(finders: Sequence[Finder] | None, strict: bool = False) -> Emitter:
    """One in whose run a block has begun; None masks nothing."""
    clock, state, log = SystemClock(), RunState(), RunLog()
    made = (
        Emitter(clock, state, log)
        if finders is None
        else RedactingEmitter(clock, state, log, t.cast(Redaction, _Fixed(finders, strict)))
    )
    made.emit(ev.RunStarted("run", "wf", [ev.BlockInfo("a", "agent", "A")], []))
    made.emit(ev.BlockStarted("a", "agent", "A"))
    return made


def per_token(make: Callable[[], Emitter], said: Sequence[str]) -> float:
    """Microseconds of the processor for a token: the best of several rounds."""
    best = float("inf")
    for _ in range(_ROUNDS):
        one = make()
        began = time.thread_time()
        for text in said:
            one.emit(ev.TextDelta("a", 0, text, True))
        best = min(best, time.thread_time() - began)
    return best / len(said) * 1e6


def whole_texts() -> dict[str, str]:
    """Texts of a million characters: what tools give, and what costs detectors most."""
    entries = (
        {"id": n * 7919, "name": f"Ann {n}", "mail": f"a{n}@example.com", "price": n / 7}
        for n in range(20_000)
    )
    pieces = {
        "prose": PROSE,
        "full of numbers": NUMBERS,
        "JSON with an address in each entry": encoding.dumps(list(entries)).decode(),
        "log": "2026-11-30 15:50:25,476 INFO 10.0.0.7 GET /api/runs/01m8pjcx 200 1234 5.3ms\n",
        "only digits": "1",
        "only at signs": "@",
        "cards in a row": "4111 1111 1111 1111 ",
        "addresses in a row": "1.2.3.4 ",
    }
    return {name: (text * (_WHOLE // len(text) + 1))[:_WHOLE] for name, text in pieces.items()}


def per_text(finders: Sequence[Finder], text: str) -> float:
    """Milliseconds of the processor for a whole text: the best of three."""
    best = float("inf")
    for _ in range(3):
        began = time.thread_time()
        Masking(finders).text(text)
        best = min(best, time.thread_time() - began)
    return best * 1e3


def held(finders: Sequence[Finder], said: Sequence[str]) -> tuple[list[int], list[int]]:
    """For each character how many tokens later than without it comes; and after each token how many are held."""
    sieve, late, backs = Sieve(finders), [], []
    came: list[int] = []
    for place, text in enumerate(said):
        came += [place] * len(text)
        out = len(sieve.feed(text))
        late += [place - at for at in came[:out]]
        came = came[out:]
        backs.append(len(came))
    return late, backs


def _figures(numbers: Sequence[int]) -> tuple[float, float, int]:
    ordered = sorted(numbers)
    return statistics.fmean(ordered), ordered[int(len(ordered) * 0.99)], ordered[-1]


def main() -> None:
    """Print the tables."""
    known = {detector.name: detector for detector in DETECTORS}
    data = finders_of(Policy(), known)
    ten = KnownValues(f"sk-{secrets.token_urlsafe(24)}" for _ in range(10))
    ways: list[tuple[str, Sequence[Finder] | None, bool]] = [
        ("off", None, False),
        ("10 stored secrets", [ten], False),
        ("live, all detectors", data, False),
        ("live, e-mail and card", finders_of(Policy(detectors=("email", "card")), known), False),
        ("strict, all detectors", data, True),
    ]
    print("| what is masked | prose: µs a token | with numbers: µs a token |\n|---|---|---|")
    for name, finders, strict in ways:
        costs = [
            per_token(lambda f=finders, s=strict: emitter(f, s), tokens(text)) for text in (PROSE, NUMBERS)
        ]
        print(f"| {name} | {costs[0]:.1f} | {costs[1]:.1f} |")
    print(
        "\n| live, on | characters held: mean / 99 % / most | tokens later: mean / 99 % / most | "
        + " | ".join(f"ms later at {rate} tokens/s: mean / 99 %" for rate in RATES)
        + " |"
    )
    print("|---|---|---|" + "---|" * len(RATES))
    for name, finders in (("all detectors", data), ("10 stored secrets", [ten])):
        for kind, text in (("prose", PROSE), ("numbers", NUMBERS)):
            late, backs = held(finders, tokens(text))
            mean, most_of, most = _figures(late)
            chars = "{:.1f} / {:.0f} / {}".format(*_figures(backs))
            times = " | ".join(f"{mean * 1000 / rate:.0f} / {most_of * 1000 / rate:.0f}" for rate in RATES)
            print(f"| {kind}, {name} | {chars} | {mean:.2f} / {most_of:.0f} / {most} | {times} |")
    print("\n| a million characters at once, all detectors | ms |\n|---|---|")
    for name, text in whole_texts().items():
        print(f"| {name} | {per_text(data, text):.0f} |")


if __name__ == "__main__":
    main()
