"""The log of the server, with which gunicorn writes access lines, and what it has to say itself.

Law of this room: an address that is itself a credential is not written down: of a link to a decision, or of one that
sets the owner's password, the line has the way, not the token; of the way back from single sign-on it has not the code.
"""

from __future__ import annotations

import logging
import re
import typing as t
from urllib.parse import unquote

from gunicorn.glogging import Logger

_TOKEN = re.compile(r"(/(?:decide|setup)/)[^/?#]+")
_RETURN = "/api/chat/sso/callback"
_CODE = re.compile(rf"({_RETURN})\?[^#]*")
#: The same inside of a sentence.
_SAID = re.compile(rf"(/(?:decide|setup)/)[^/?#\s'\"]+|({_RETURN}\?)[^\s'\"]+")
_HOLD_IT = ("RAW_URI", "PATH_INFO", "REQUEST_URI", "HTTP_REFERER")


class ServerLog(Logger):  # type: ignore[misc]  # gunicorn has no types
    """See the module."""

    def setup(self, cfg: t.Any) -> None:
        """Begin to write."""
        super().setup(cfg)
        self.error_log.addFilter(_told)  # the same one again, after a reload, is not added

    def atoms(self, resp: t.Any, req: t.Any, environ: t.Mapping[str, t.Any], request_time: t.Any) -> t.Any:
        """What a line can be made of."""
        path = str(environ.get("PATH_INFO", ""))
        if path.endswith(_RETURN):
            raw = f"{path}?-"  # made anew: it may have come with letters of the way encoded
            environ = {**environ, "RAW_URI": raw, "REQUEST_URI": raw, "QUERY_STRING": "-"}
        if _RETURN in environ.get("HTTP_REFERER", ""):
            environ = {**environ, "HTTP_REFERER": _CODE.sub(r"\1?-", environ["HTTP_REFERER"])}
        if _TOKEN.search(path) or _TOKEN.search(environ.get("HTTP_REFERER", "")):
            hidden = {name: _TOKEN.sub(r"\1-", environ[name]) for name in _HOLD_IT if name in environ}
            if _TOKEN.search(path) and not _TOKEN.search(environ.get("RAW_URI", "")):
                hidden["RAW_URI"] = hidden["PATH_INFO"]  # it came with letters of the way encoded
            environ = {**environ, **hidden}
        return super().atoms(resp, req, environ, request_time)


def _told(record: logging.LogRecord) -> bool:
    """Take credentials out of a line: gunicorn names addresses of requests at ``debug``, and of what it cannot read."""
    line = unquote(record.getMessage())
    hidden = _SAID.sub(lambda found: f"{found[1] or found[2]}-", line)
    if hidden != line:
        record.msg, record.args = hidden, ()
    return True
