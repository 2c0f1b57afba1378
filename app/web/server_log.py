"""The log of the server, with which gunicorn writes access lines.

Law of this room: an address that is itself a credential is not written down: of a link to a decision the line has the
way, not the token.
"""

from __future__ import annotations

import re
import typing as t

from gunicorn.glogging import Logger

_TOKEN = re.compile(r"(/decide/)[^/?#]+")
_HOLD_IT = ("RAW_URI", "PATH_INFO", "REQUEST_URI", "HTTP_REFERER")


class ServerLog(Logger):  # type: ignore[misc]  # gunicorn has no types
    """See the module."""

    def atoms(self, resp: t.Any, req: t.Any, environ: t.Mapping[str, t.Any], request_time: t.Any) -> t.Any:
        """What a line can be made of."""
        path = str(environ.get("PATH_INFO", ""))
        if "/decide/" in path or "/decide/" in environ.get("HTTP_REFERER", ""):
            hidden = {name: _TOKEN.sub(r"\1-", environ[name]) for name in _HOLD_IT if name in environ}
            raw = hidden.get("RAW_URI", "")
            if "/decide/" in path and "/decide/" not in raw:  # it came with letters of the way encoded
                hidden["RAW_URI"] = hidden["PATH_INFO"]
            environ = {**environ, **hidden}
        return super().atoms(resp, req, environ, request_time)
