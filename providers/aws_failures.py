"""AWS's answers that are no stream, as the codes of contract section 11.

Law of this room: AWS names a failure in a header and says the words in the body; both are put together and judged
like any vendor's report. Source: "Common error types" of the Amazon Bedrock API reference.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from providers import errors
from providers.spec import ProviderError


def aws_error(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """What an answer that is no stream means.

    :param status: HTTP status.
    :param headers: response headers, names in lower case; ``x-amzn-errortype`` is ``<name>:<address>``.
    :param body: JSON with a ``message``, sometimes with a ``__type`` of the form ``<space>#<name>``.
    """
    kind = headers.get("x-amzn-errortype", "").partition(":")[0]
    try:
        report = orjson.loads(body)
    except ValueError:
        report = None
    if isinstance(report, dict):
        kind = kind or str(report.get("__type") or "")
        message = report.get("message") or report.get("Message") or ""
        if kind:
            kind = kind.rpartition("#")[2]
            body = orjson.dumps({"type": kind, "message": message or kind, "details": report})
    return errors.http_error(status, headers, body)
