"""Where and as whom a family is called: addresses, keys and settings from the environment of the moment.

Law of this room: nothing here is stored, and no value is repeated in a message: an address may hold a password.
Every :class:`NotConfigured` names the variable to set.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Callable, Iterable, Mapping, Sequence
from urllib.parse import urlsplit

from plugins.spec.families import ConnectionSpec, ProviderFamily, Setting
from providers.spec import Connection

#: A path segment that already pins an API version: ``v1``, ``v1beta``, ``v4``.
_VERSION_SEGMENT = re.compile(r"/v\d+[a-z0-9]*(?:/|$)")
#: What a setting may hold that becomes part of a host name or a path.
_OPTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/+-]*")


class RegistryError(Exception):
    """A model cannot be used. ``message`` names it and the cure and is safe to show."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class NotConfigured(RegistryError):
    """An address or a credential is missing or unusable; ``variable`` is the environment variable to set."""

    def __init__(self, message: str, variable: str) -> None:
        super().__init__(message)
        self.variable = variable


class Variables:
    """The environment variables of one family, in the order they are tried (contract section 12)."""

    def __init__(self, family: ProviderFamily) -> None:
        prefix = variable_prefix(family.id)
        self.base = (f"{prefix}_API_BASE", *family.connection.base_vars)
        self.key = (f"{prefix}_API_KEY", *family.connection.key_vars)
        self.inline = (f"{prefix}_INLINE_THINKING",) if "inline_thinking" in family.dialect else ()
        self.wire = (f"{prefix}_WIRE",) if family.other_wires else ()
        self.concurrency = (f"{prefix}_MAX_CONCURRENCY",)
        self.settings = {
            setting.name: (f"{prefix}_{setting.name.upper()}", *setting.variables)
            for setting in family.connection.settings
        }
        of_settings = [name for names in self.settings.values() for name in names]
        self.all = (*self.base, *self.key, *self.inline, *self.wire, *self.concurrency, *of_settings)


def variable_prefix(family_id: str) -> str:
    """``STUDIO_<FAMILY>`` with hyphens and dots as underscores."""
    return "STUDIO_" + re.sub(r"[-.]", "_", family_id).upper()


def connect(family: ProviderFamily, variables: Variables, environ: Mapping[str, str]) -> Connection:
    """The connection of ``family`` as ``environ`` has it, with the default limits.

    :raises NotConfigured: an address, a key or a setting is missing or malformed.
    """
    spec = family.connection
    credentials = _key(family, variables, environ)
    options: dict[str, str] = {}
    for setting in spec.settings:
        value = _setting(family, setting, variables.settings[setting.name], environ)
        if value:
            (credentials if setting.secret else options)[setting.name] = value
    if spec.check is not None and (problem := spec.check(credentials, options)) is not None:
        raise NotConfigured(*problem)
    base = _base(family, variables, options, environ)
    headers = {
        name: filled for name, value in spec.headers.items() if (filled := _filled(value, options) or "")
    }
    return Connection(
        base_url=base,
        auth=family.auth,
        credentials=credentials,
        headers=headers,
        options=options,
        idle_s=spec.idle_s,
    )


def _key(family: ProviderFamily, variables: Variables, environ: Mapping[str, str]) -> dict[str, str]:
    variable, key = first(variables.key, environ)
    if key:
        if not key.isascii() or not key.isprintable():
            raise NotConfigured(
                f"{variable} holds characters a key cannot have (a line break, a control character or "
                "a non-ASCII letter); set it again",
                variable,
            )
        return {"api_key": key}
    if family.connection.key_required:
        variable = _preferred(family.connection.key_vars, variables.key)
        raise NotConfigured(
            f"{family.title} needs an API key; set {variable} in the server's environment", variable
        )
    return {}


def _setting(
    family: ProviderFamily, setting: Setting, names: Sequence[str], environ: Mapping[str, str]
) -> str:
    variable, value = first(names, environ)
    if value:
        shown = "".join(value.split()) if setting.multiline else value
        if not shown.isprintable() or (not setting.secret and not _OPTION.fullmatch(value)):
            raise NotConfigured(
                f"{variable} holds a character it cannot have; give {setting.doc}"
                + ("" if setting.secret else ", of letters, digits and . _ : @ / + -"),
                variable,
            )
        return value
    if setting.required and setting.default is None:
        variable = _preferred(setting.variables, names)
        raise NotConfigured(
            f"{family.title} needs {setting.doc}; set {variable} in the server's environment", variable
        )
    return setting.default or ""


def _base(
    family: ProviderFamily, variables: Variables, options: Mapping[str, str], environ: Mapping[str, str]
) -> str:
    spec: ConnectionSpec = family.connection
    found, given = first(variables.base, environ)
    if given and spec.read_base is not None:
        try:
            given = spec.read_base(given)
        except ValueError:  # urlsplit, of brackets with no address between them
            raise _no_address(found) from None
    variable = found or _preferred(spec.base_vars, variables.base)
    base = given or _filled(spec.default_base, options)
    if base is None:
        raise _no_base(family, variables, options, variable)
    return _normal_base(base, spec.version_path, variable) if base else ""


def _no_base(
    family: ProviderFamily, variables: Variables, options: Mapping[str, str], variable: str
) -> NotConfigured:
    """Without an address. One that is made of a setting asks for the setting, which is what people have at hand."""
    template = family.connection.default_base
    for setting in family.connection.settings:
        if isinstance(template, str) and f"{{{setting.name}}}" in template and setting.name not in options:
            own = _preferred(setting.variables, variables.settings[setting.name])
            return NotConfigured(
                f"{family.title} needs {setting.doc}; set {own} in the server's environment, "
                f"or {variable} to the whole address",
                own,
            )
    return NotConfigured(
        f"{family.title} needs an address; set {variable} in the server's environment, "
        "for example http://127.0.0.1:8080/v1",
        variable,
    )


def _filled(
    template: str | Callable[[Mapping[str, str]], str | None] | None, options: Mapping[str, str]
) -> str | None:
    """A template with the settings in its braces, or what it makes of them; None when one of them is not set."""
    if callable(template):
        return template(options)
    if template is None or "{" not in template:
        return template
    try:
        return template.format_map(options)
    except KeyError:
        return None


def first(variables: Iterable[str], environ: Mapping[str, str]) -> tuple[str, str]:
    """The first variable that is set, and its value; two empty strings when none is."""
    for variable in variables:
        value = (environ.get(variable) or "").strip()
        if value:
            return variable, value
    return "", ""


def _preferred(own: Sequence[str], all_names: Sequence[str]) -> str:
    """The variable to name in a message: the vendor's own when it has one, for people know that."""
    return own[0] if own else all_names[0]


def _normal_base(base: str, version_path: str, variable: str) -> str:
    base = base.strip().rstrip("/")
    try:
        parts = urlsplit(base)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not base.isprintable() or " " in base:
        raise _no_address(variable)
    if version_path and not _VERSION_SEGMENT.search(urlsplit(base).path):
        base += version_path
    return base


def _no_address(variable: str) -> NotConfigured:
    """The value is not repeated: it may hold a password."""
    return NotConfigured(
        f"{variable} is no http or https address; set it to one like https://host/v1", variable
    )


def chosen_wire(family: ProviderFamily, variables: Variables, environ: Mapping[str, str]) -> str | None:
    """The wire that ``STUDIO_<FAMILY>_WIRE`` names; None when it is not set.

    :raises NotConfigured: it names none of the family's.
    """
    variable, name = first(variables.wire, environ)
    offered = [wire for wire in (family.wire, *family.other_wires) if isinstance(wire, str)]
    if name and name not in offered:
        raise NotConfigured(f"{variable} must be one of {', '.join(offered)}", variable)
    return name or None


def dialect_of(
    family: ProviderFamily, model: str, variables: Variables, environ: Mapping[str, str]
) -> Mapping[str, t.Any]:
    """The switches of the wire for one model: the family's, the model's over them, the environment's last."""
    dialect = dict(family.dialect)
    if family.model_dialect is not None:
        dialect.update(family.model_dialect(model))
    for variable in variables.inline:
        value = environ.get(variable)
        if value is not None:
            word = value.strip().lower()
            # "implicit": the model never writes the opening tag.
            dialect["inline_thinking"] = word if word == "implicit" else word in ("1", "true", "yes", "on")
    return dialect


def max_concurrency(family: ProviderFamily, variables: Variables, environ: Mapping[str, str]) -> int | None:
    """How many calls of ``family`` may run at once in one worker; None: no limit. A variable of 0 lifts the family's.

    :raises NotConfigured: the variable holds no whole number.
    """
    variable, value = first(variables.concurrency, environ)
    if not value:
        return family.max_concurrency
    if not re.fullmatch(r"[0-9]{1,9}", value):
        raise NotConfigured(f"{variable} is no whole number; give one from 1, or 0 for no limit", variable)
    return int(value) or None
