"""The OpenAPI document as a page: readable without its script, which only filters it and sends requests.

Law of this room: made from the document and nothing else, so that the page cannot say anything but what programs read.
Every word is text to the template.
"""

from __future__ import annotations

import json
import re
import typing as t
from collections.abc import Callable, Iterator, Mapping

from flask import current_app
from markupsafe import Markup, escape

_METHODS = ("get", "post", "put", "patch", "delete")
_CODE = re.compile(r"`([^`]*)`")
_LINK = re.compile(r"\[([^\]]+)\]\((https?://[^)\s]+)\)")


#: Pieces of the page after which others get their turn.
_AT_ONCE = 200


def render(document: Mapping[str, t.Any], pause: Callable[[], None]) -> bytes:
    """The page of a document.

    :param pause: called now and then, to let others go on.
    """
    template = current_app.jinja_env.get_template("api_docs.html")
    made = bytearray()
    for count, piece in enumerate(template.generate(**_values(_Page(document), document))):
        made += piece.encode()
        if count % _AT_ONCE == 0:
            pause()
    return bytes(made)


def _values(page: _Page, document: Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {
        "info": document["info"],
        "groups": (
            {
                "name": tag["name"],
                "says": tag["description"],
                "operations": list(page.operations(tag["name"])),
            }
            for tag in document["tags"]
        ),
        "nav": [
            {"name": tag["name"], "operations": list(page.outline(tag["name"]))} for tag in document["tags"]
        ],
        "schemas": map(page.schema, document["components"]["schemas"]),
        "prose": prose,
        "up": "../",
    }


def prose(text: str) -> Markup:
    """Paragraphs with code and links, of the Markdown that descriptions are written in."""
    return Markup().join(
        Markup("<p>{}</p>").format(_inline(part)) for part in re.split(r"\n\s*\n", text.strip()) if part
    )


def _inline(text: str) -> Markup:
    marked = _LINK.sub(r'<a href="\2">\1</a>', str(escape(text)))
    return Markup(_CODE.sub(r"<code>\1</code>", marked))  # escaped above


class _Page:
    """What the template draws."""

    def __init__(self, document: Mapping[str, t.Any]) -> None:
        self._document = document

    def operations(self, tag: str) -> Iterator[dict[str, t.Any]]:
        """The routes of a group, in the order of the document."""
        for path, item in self._document["paths"].items():
            for method in _METHODS:
                operation = item.get(method)
                if operation is not None and tag in operation["tags"]:
                    yield self._operation(path, method, operation)

    def outline(self, tag: str) -> Iterator[dict[str, t.Any]]:
        """The same for the list of all routes."""
        for item in self._document["paths"].values():
            for method in _METHODS:
                if method in item and tag in item[method]["tags"]:
                    found = item[method]
                    yield {"id": found["operationId"], "method": method.upper(), "does": found["summary"]}

    def _operation(self, path: str, method: str, operation: Mapping[str, t.Any]) -> dict[str, t.Any]:
        parameters = [self._followed(each) for each in operation.get("parameters", ())]
        answers = [self._answer(status, self._followed(a)) for status, a in operation["responses"].items()]
        return {
            "id": operation["operationId"],
            "method": method.upper(),
            "path": path,
            "does": operation["summary"],
            "says": prose(operation.get("description", "")),
            "who": _inline(operation["x-credential"]),
            "parameters": [
                {**each, "type": self.words(each["schema"]), "says": _inline(each.get("description", ""))}
                for each in parameters
            ],
            "body": self._body(operation.get("requestBody")),
            "answers": [answer for answer in answers if not answer["is_error"]],
            "errors": [answer for answer in answers if answer["is_error"]],
            "is_page": "Pages" in operation["tags"],
        }

    def _body(self, body: Mapping[str, t.Any] | None) -> dict[str, t.Any] | None:
        if body is None:
            return None
        (media, content), *also = body["content"].items()
        (given,) = [each["value"] for each in content.get("examples", {}).values()] or [None]
        return {
            "media": media,
            "also": [name for name, _ in also],
            "required": body["required"],
            "type": self.words(content["schema"]),
            "members": self.members(self._followed(content["schema"])),
            "example": "" if given is None else _json(given),
        }

    def _answer(self, status: str, answer: Mapping[str, t.Any]) -> dict[str, t.Any]:
        forms = [
            {
                "media": media,
                "type": self.words(content["schema"]),
                "says": _inline(content["schema"].get("description", "")),
                "examples": [
                    (name, _text(each["value"])) for name, each in content.get("examples", {}).items()
                ],
            }
            for media, content in answer.get("content", {}).items()
        ]
        return {
            "status": status,
            "says": _inline(answer["description"]),
            "forms": forms,
            "headers": [
                self._header(name, self._followed(sent))
                for name, sent in answer.get("headers", {}).items()
                if name != "X-Request-Id"
            ],
            "is_error": int(status) >= 400,
        }

    def _header(self, name: str, header: Mapping[str, t.Any]) -> dict[str, t.Any]:
        says = _inline(header["description"])
        return {"name": name, "says": says, "always": header.get("required", False)}

    def schema(self, name: str) -> dict[str, t.Any]:
        """A named schema."""
        found = self._document["components"]["schemas"][name]
        says = _inline(found.get("description", ""))
        return {"name": name, "says": says, "members": self.members(found)}

    def members(self, schema: Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
        """The members of an object."""
        required = schema.get("required", ())
        return [
            {
                "name": name,
                "type": self.words(member),
                "required": name in required,
                "says": _inline(member.get("description", "")),
            }
            for name, member in schema.get("properties", {}).items()
        ]

    def words(self, schema: Mapping[str, t.Any]) -> Markup:
        """A type in words, with links to named schemas."""
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return Markup('<a href="#schema-{0}">{0}</a>').format(name)
        if "anyOf" in schema:
            return Markup(" or ").join(self.words(option) for option in schema["anyOf"])
        if "const" in schema or "enum" in schema:
            values = schema.get("enum", [schema.get("const")])
            return Markup(" | ").join(Markup("<code>{}</code>").format(_json(value)) for value in values)
        kinds = schema.get("type", "anything")
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if "array" in kinds:
            return Markup("list of {}").format(self.words(schema["items"]))
        if "object" in kinds:
            return Markup("object") + self._values(schema)
        return Markup("{}{}").format(" or ".join(kinds), _bounds(schema))

    def _values(self, schema: Mapping[str, t.Any]) -> Markup:
        inner = schema.get("additionalProperties")
        return Markup(" of {}").format(self.words(inner)) if isinstance(inner, Mapping) else Markup()

    def _followed(self, item: Mapping[str, t.Any]) -> Mapping[str, t.Any]:
        """What a reference points to."""
        if "$ref" not in item:
            return item
        *_, kind, name = item["$ref"].split("/")
        return t.cast("Mapping[str, t.Any]", self._document["components"][kind][name])


def _bounds(schema: Mapping[str, t.Any]) -> str:
    said = [schema["format"]] if "format" in schema else []
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        said.append(f"{low} to {high}")
    elif low is not None:
        said.append(f"at least {low}")
    if "maxLength" in schema:
        said.append(f"at most {schema['maxLength']:,} characters")
    if "default" in schema:
        said.append(f"default {_json(schema['default'])}")
    return f" ({', '.join(said)})" if said else ""


def _json(value: t.Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _text(value: t.Any) -> str:
    return value if isinstance(value, str) else _json(value)
