"""The body of ``POST`` and ``PATCH /api/chats`` (contract section 8).

Law of this room: strict, as for all bodies. What needs the store (the workflow, its blocks, other chats) is judged
where that is at hand.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from app import encoding
from app.errors import Problem
from app.redaction.loading import load_policy
from app.schemas import derive
from app.schemas.limits import BudgetLimit, RateLimit
from app.schemas.paths import join, shown

#: Most characters of a password, as of those who sign in.
MAX_PASSWORD = 1024
#: Most bytes of ``customization``, as JSON.
MAX_CUSTOMIZATION = 16 * 1024
#: Slugs that would stand in the way of our own paths beside ``/chat/{slug}`` and ``/api/chat/{slug}``.
RESERVED = frozenset({"resume", "sso", "widget", "embed", "api", "static"})

_SLUG = re.compile(r"[a-z0-9-]{1,100}")
_EMAIL = re.compile(r"[^@\s,;<>\"]*@[^@\s,;<>\"]+")
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?")
_USUAL_PORTS = {"http": "80", "https": "443"}
#: Members of ``customization`` that the page gives to a browser as more than text.
_COLOURS, _ADDRESSES = ("primaryColor", "backgroundColor"), ("logoUrl", "imageUrl")
_COLOUR = re.compile(r"#(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})")
# The host of one stands in the policy of the page, in which ; and , end what is said.
_ADDRESS = re.compile(
    r"https://[A-Za-z0-9._-]{1,253}(?::[0-9]{1,5})?(?:[/?#][^\s\"'<>\\]{0,2000})?|/static/[A-Za-z0-9._/-]{1,200}"
)


def _key(name: str, doc: str, **more: t.Any) -> dict[str, t.Any]:
    return {"key": name, "doc": doc, **more}


@dataclass(frozen=True, slots=True)
class ChatDeploymentBody:
    """A chat as its owner describes it."""

    workflow_id: str = dataclasses.field(
        metadata=_key("workflowId", "The workflow whose live version answers.", most=255)
    )
    slug: str = dataclasses.field(
        metadata={"doc": "Its name in addresses: lower case letters, digits and hyphens.", "most": 100}
    )
    title: str = dataclasses.field(
        metadata={"doc": "What visitors see above it.", "nonempty": True, "most": 200}
    )
    description: str | None = dataclasses.field(
        default=None, metadata={"doc": "What it is for.", "most": 2000}
    )
    welcome_message: str | None = dataclasses.field(
        default=None, metadata=_key("welcomeMessage", "What it says before anybody asks.", most=5000)
    )
    auth_type: t.Literal["public", "password", "email", "sso"] = dataclasses.field(
        default="public", metadata=_key("authType", "How visitors get in.")
    )
    password: str | None = dataclasses.field(
        default=None,
        metadata={
            "doc": "With authType password: what they have to know. It is never shown again.",
            "nonempty": True,
            "most": MAX_PASSWORD,
        },
    )
    allowed_emails: tuple[str, ...] = dataclasses.field(
        default=(),
        metadata=_key(
            "allowedEmails", "With authType email or sso: addresses, and @domain for all of one.", most=1000
        ),
    )
    outputs: tuple[str, ...] | None = dataclasses.field(
        default=None,
        metadata={
            "doc": "What visitors get, as block.path. Default: the text of the agents that answer.",
            "nonempty": True,
            "most": 100,
        },
    )
    include_thinking: bool = dataclasses.field(
        default=False, metadata=_key("includeThinking", "Visitors may see the models' thinking.")
    )
    include_tool_calls: bool = dataclasses.field(
        default=False,
        metadata=_key(
            "includeToolCalls", "Visitors may see that a tool is called; never with what, nor its result."
        ),
    )
    customization: Mapping[str, t.Any] | None = dataclasses.field(
        default=None,
        metadata={"doc": "How the page looks; an object that is given to visitors as it is."},
    )
    allowed_origins: tuple[str, ...] = dataclasses.field(
        default=(),
        metadata=_key(
            "allowedOrigins",
            "Web origins whose pages may use and embed it, as scheme://host[:port]; none: all may.",
            most=100,
        ),
    )
    rate_limit: Mapping[str, t.Any] | None = dataclasses.field(
        default=None, metadata=_key("rateLimit", "How many messages are taken.")
    )
    budget: Mapping[str, t.Any] | None = dataclasses.field(
        default=None, metadata={"doc": "How much its runs may use."}
    )
    redact: Mapping[str, t.Any] | None = dataclasses.field(
        default=None,
        metadata={"doc": "What is masked in its runs; the stricter of this and the agents' holds."},
    )
    active: bool = dataclasses.field(default=True, metadata={"doc": "Visitors are let in at all."})


def load_deployment(
    body: Mapping[str, t.Any], has_password: bool, detectors: Collection[str] | None = None
) -> tuple[ChatDeploymentBody | None, list[Problem]]:
    """A chat as it was sent, in one spelling, or what is wrong with it.

    :param has_password: one is kept already. :param detectors: names of those there are; None: not judged.
    """
    parsed, problems = derive.load(ChatDeploymentBody, body)
    if parsed is None:
        return None, problems
    origins = tuple(dict.fromkeys(origin.lower() for origin in parsed.allowed_origins))
    emails = tuple(dict.fromkeys(email.strip().lower() for email in parsed.allowed_emails))
    parsed = dataclasses.replace(parsed, allowed_origins=origins, allowed_emails=emails)
    problems += _slug_problems(parsed.slug)
    problems += _gate_problems(parsed, has_password)
    problems += _list_problems("allowedEmails", parsed.allowed_emails, _email_problem)
    problems += _list_problems("allowedOrigins", parsed.allowed_origins, _origin_problem)
    problems += _look_problems(parsed.customization or {})
    if parsed.rate_limit is not None:
        problems += derive.load(RateLimit, parsed.rate_limit, "rateLimit")[1]
    if parsed.budget is not None:
        problems += derive.load(BudgetLimit, parsed.budget, "budget")[1]
    problems += load_policy(parsed.redact, "redact", detectors)[1]
    return parsed, problems


def _slug_problems(slug: str) -> Iterator[Problem]:
    if not _SLUG.fullmatch(slug):
        yield Problem("slug", "must be 1 to 100 lower case letters, digits and hyphens, such as help-desk")
    elif slug in RESERVED:
        yield Problem("slug", f"{shown(slug)} is reserved; choose another, such as {slug}-chat")


def _gate_problems(body: ChatDeploymentBody, has_password: bool) -> Iterator[Problem]:
    if body.auth_type == "password" and body.password is None and not has_password:
        yield Problem("password", 'is required with "authType": "password"')
    if body.auth_type != "password" and body.password is not None:
        yield Problem("password", 'goes with "authType": "password" only; leave it out')
    if body.auth_type == "email" and not body.allowed_emails:
        cure = "name addresses, or @domain for all of one"
        yield Problem("allowedEmails", f'is required with "authType": "email"; {cure}')


def _list_problems(
    name: str, entries: tuple[str, ...], judge: t.Callable[[str], str | None]
) -> Iterator[Problem]:
    for place, entry in enumerate(entries):
        if (problem := judge(entry)) is not None:
            yield Problem(join(name, place), problem)


def _email_problem(entry: str) -> str | None:
    if _EMAIL.fullmatch(entry) and len(entry) <= 320:
        return None
    return f"must be an address such as ada@example.org, or a domain such as @example.org, not {shown(entry)}"


def _origin_problem(entry: str) -> str | None:
    found = _ORIGIN.fullmatch(entry)
    if found is None:
        return f"must be scheme://host or scheme://host:port, without a path or *, not {shown(entry)}"
    if found[2] is not None and _USUAL_PORTS.get(found[1]) == found[2]:
        return f"leave out :{found[2]}, as browsers do for {found[1]}"
    return None


def _look_problems(look: Mapping[str, t.Any]) -> Iterator[Problem]:
    if len(encoding.dumps(look)) > MAX_CUSTOMIZATION:
        yield Problem(
            "customization", f"has more than {MAX_CUSTOMIZATION // 1024} KiB as JSON; keep less in it"
        )
    for names, form, what in (
        (_COLOURS, _COLOUR, "a colour such as #1a73e8"),
        (_ADDRESSES, _ADDRESS, "an address that begins with https://"),
    ):
        for name in names:
            value = look.get(name)
            if value is not None and not (isinstance(value, str) and form.fullmatch(value)):
                yield Problem(join("customization", name), f"must be {what}, not {shown(value)}")
