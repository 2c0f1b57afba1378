"""The conformance kit: the same scenarios for every provider family, in or out of the tree.

A family brings answers of its vendor as recorded bytes (:mod:`plugins.conformance.recordings` describes the files).
The kit serves them from a loopback socket, in pieces of awkward sizes, and calls the family's model through its real
wire, connection and authentication. What came out is compared with what the recording says it should be, and the
capabilities that were shown with those the family claims: a difference fails, both ways.

::

    from studio_plugin import conformance

    verdicts = conformance.check(FAMILY)
    print(conformance.render(verdicts))

``studio conformance --plugin NAME`` does the same for an installed plugin, and
``plugins.conformance.pytest_plugin`` gives pytest a fixture. Nothing here imports pytest.
"""

from plugins.conformance.check import check
from plugins.conformance.recordings import Recording, RecordingInvalid, load
from plugins.conformance.report import render
from plugins.conformance.verdict import Claim, Outcome, Verdict
from plugins.conformance.waits import KitWaits

__all__ = [
    "Claim",
    "KitWaits",
    "Outcome",
    "Recording",
    "RecordingInvalid",
    "Verdict",
    "check",
    "load",
    "render",
]
