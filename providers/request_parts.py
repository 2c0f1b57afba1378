"""What the request sides of several wires have in common: addresses and files.

Law of this room: no vendor is named here. The switches ``path`` and ``query`` mean the same on every wire.

====================  =======================================================================================
switch                meaning
====================  =======================================================================================
``path``              where the wire posts, below the base address. ``{model}`` and the connection's options in
                      braces are filled in; default: the wire's own
``query``             mapping added to the address; values may name options in braces, and one that comes out
                      empty is left out; default: the wire's own
====================  =======================================================================================
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from urllib.parse import quote, urlencode

from providers.errors import failure
from providers.spec import Connection, FilePart, ModelRequest

#: What a model's name may hold in an address as it is: versions (``@20250929``), publishers, tags.
_IN_NAME = "/@:._-"


def endpoint(
    request: ModelRequest, connection: Connection, path: str, query: Mapping[str, str] | None = None
) -> str:
    """The address of one model call.

    :param path: the wire's own, e.g. ``/models/{model}:streamGenerateContent``; ``dialect["path"]`` wins.
    :param query: the wire's own; ``dialect["query"]`` replaces it.
    :raises ProviderError: ``provider_unavailable`` when the path names an option that the connection lacks.
    """
    path = request.dialect.get("path") or path
    if "{" in path:
        names = {**connection.options, "model": quote(request.model, safe=_IN_NAME)}
        try:
            path = path.format_map(names)
        except KeyError as error:
            raise failure(
                "provider_unavailable",
                message=f"The provider's address needs the setting {error.args[0]}. Set it.",
            ) from None
    wanted = {
        name: filled
        for name, value in (request.dialect.get("query", query) or {}).items()
        if (filled := _filled(str(value), connection.options))
    }
    return f"{connection.base_url}{path}{f'?{urlencode(wanted)}' if wanted else ''}"


def _filled(value: str, options: Mapping[str, str]) -> str:
    try:
        return value.format_map(options) if "{" in value else value
    except KeyError:
        return ""


def file_text(file: FilePart) -> str:
    """A text file as it is put into a prompt: headed by its name, for vendors without text documents."""
    text = file.data.decode("utf-8", "replace")
    return f"{file.name}:\n{text}" if file.name else text


def file_base64(file: FilePart) -> str:
    """A file's bytes as vendors take them in JSON."""
    return base64.b64encode(file.data).decode()


def data_url(file: FilePart) -> str:
    """A file as a ``data:`` address."""
    return f"data:{file.media_type};base64,{file_base64(file)}"
