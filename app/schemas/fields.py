"""marshmallow fields that convert nothing.

Law of this room: a value has the asked type or is a problem whose message says what to write. No
"true" for true, no 1 for true, no "5" for 5; a whole number is accepted where any number is.
"""

from __future__ import annotations

import math
import typing as t
from collections.abc import Mapping, Sequence

import marshmallow
from marshmallow import ValidationError, fields

from app import encoding
from app.schemas.paths import did_you_mean, shown

REQUIRED = "is required"
#: What marshmallow files the errors of a whole object under.
WHOLE = "_schema"
#: Wrong entries of one list or object that are told; what more there are is not even looked for. Whoever sends a
#: million of them must not keep this process busy for a minute, and get a hundred megabytes of answer.
MOST_TOLD = 50


class Strict(fields.Field[t.Any]):
    """Base: the two messages every field shares."""

    default_error_messages: dict[str, str | list[t.Any] | dict[t.Any, t.Any]] = {  # noqa: RUF012  # marshmallow's
        "required": REQUIRED,
        "null": "must not be null",
    }


class Anything(Strict):
    """Any JSON value, as it is."""

    def _deserialize(self, value: t.Any, attr: str | None, data: t.Any, **kwargs: t.Any) -> t.Any:
        return value


class Flag(Strict):
    """true or false."""

    def _deserialize(self, value: t.Any, attr: str | None, data: t.Any, **kwargs: t.Any) -> bool:
        if value is True or value is False:
            return value
        raise ValidationError(f"must be true or false, not {shown(value)}")


class Number(Strict):
    """A finite number from ``low`` to ``high``, both included; ``above`` excludes its bound."""

    whole = False

    def __init__(
        self,
        *,
        low: float | None = None,
        high: float | None = None,
        above: float | None = None,
        **kwargs: t.Any,
    ) -> None:
        super().__init__(**kwargs)
        self.low = low
        self.high = high
        self.above = above

    def kind(self) -> str:
        """What to write, in words."""
        noun = "a whole number" if self.whole else "a number"
        if self.low is not None and self.high is not None:
            return f"{noun} from {self.low} to {self.high}"
        if self.above is not None:
            most = f" and at most {self.high}" if self.high is not None else ""
            return f"{noun} above {self.above}{most}"
        if self.low is not None:
            return f"{noun}, at least {self.low}"
        if self.high is not None:
            return f"{noun}, at most {self.high}"
        return noun

    def _deserialize(self, value: t.Any, attr: str | None, data: t.Any, **kwargs: t.Any) -> float:
        wanted = int if self.whole else (int, float)
        fits = isinstance(value, wanted) and not isinstance(value, bool) and math.isfinite(value)
        if (
            not fits
            or (self.low is not None and value < self.low)
            or (self.high is not None and value > self.high)
            or (self.above is not None and value <= self.above)
        ):
            raise ValidationError(f"must be {self.kind()}, not {shown(value)}")
        return t.cast(float, value)


class Whole(Number):
    """A whole number; 1.0 and "1" are none."""

    whole = True


class Text(Strict):
    """A string. ``nonempty``: of at least one character; ``most``: characters; ``line``: without line breaks and
    control characters."""

    def __init__(
        self, *, nonempty: bool = False, most: int | None = None, line: bool = False, **kwargs: t.Any
    ) -> None:
        super().__init__(**kwargs)
        self.nonempty = nonempty
        self.most = most
        self.line = line

    def _deserialize(self, value: t.Any, attr: str | None, data: t.Any, **kwargs: t.Any) -> str:
        if not isinstance(value, str):
            cure = "; put it in quotes" if isinstance(value, (bool, int, float)) else ""
            raise ValidationError(f"must be text, not {shown(value)}{cure}")
        if self.nonempty and not value:
            raise ValidationError("must not be empty")
        if self.most is not None and len(value) > self.most:
            raise ValidationError(f"must have at most {self.most} characters; it has {len(value)}")
        if self.line and (found := encoding.CONTROL.search(value)):
            what = f"U+{ord(found[0]):04X} at place {found.start() + 1}"
            raise ValidationError(
                f"must be one line without control characters; it has {what}. Take it out, or put a space there"
            )
        return value


class Choice(Strict):
    """One of a few words."""

    def __init__(self, choices: Sequence[t.Any], **kwargs: t.Any) -> None:
        super().__init__(**kwargs)
        self.choices = tuple(choices)

    def _deserialize(self, value: t.Any, attr: str | None, data: t.Any, **kwargs: t.Any) -> t.Any:
        for choice in self.choices:
            # True == 1, so the types must agree as well.
            if type(choice) is type(value) and choice == value:
                return choice
        listed = " | ".join(str(c) for c in self.choices)
        near = ""
        if isinstance(value, str):
            names = [choice for choice in self.choices if isinstance(choice, str)]
            near = did_you_mean(value, names).partition("There are")[0].rstrip()
        message = f"must be one of {listed}, not {shown(value)}"
        raise ValidationError(f"{message}. {near}" if near else message)


class Items(Strict):
    """A list of ``inner``, at most ``most`` long; ``made`` in Python."""

    def __init__(
        self,
        inner: fields.Field[t.Any],
        *,
        most: int | None = None,
        made: type[list[t.Any]] | type[tuple[t.Any, ...]] = tuple,
        **kwargs: t.Any,
    ) -> None:
        super().__init__(**kwargs)
        self.made = made
        self.inner = inner
        self.most = most

    def _deserialize(
        self, value: t.Any, attr: str | None, data: t.Any, **kwargs: t.Any
    ) -> list[t.Any] | tuple[t.Any, ...]:
        if not isinstance(value, (list, tuple)):
            raise ValidationError(f"must be a list, not {shown(value)}")
        if self.most is not None and len(value) > self.most:
            raise ValidationError(f"must have at most {self.most} entries; it has {len(value)}")
        result = []
        errors: dict[int, t.Any] = {}
        for index, item in enumerate(value):
            try:
                result.append(self.inner.deserialize(item))
            except ValidationError as error:
                errors[index] = error.messages
                if len(errors) == MOST_TOLD:
                    break
        if errors:
            raise ValidationError(t.cast("dict[t.Any, t.Any]", errors))
        return self.made(result)


class Table(Strict):
    """An object with text keys and values of ``inner``; a dict in Python."""

    def __init__(self, inner: fields.Field[t.Any] | None = None, **kwargs: t.Any) -> None:
        super().__init__(**kwargs)
        self.inner = inner

    def _deserialize(self, value: t.Any, attr: str | None, data: t.Any, **kwargs: t.Any) -> dict[str, t.Any]:
        if not isinstance(value, Mapping):
            raise ValidationError(f"must be an object, not {shown(value)}")
        if self.inner is None:
            return dict(value)
        result = {}
        errors: dict[str, t.Any] = {}
        for key, item in value.items():
            try:
                result[key] = self.inner.deserialize(item)
            except ValidationError as error:
                errors[key] = error.messages
                if len(errors) == MOST_TOLD:
                    break
        if errors:
            raise ValidationError(t.cast("dict[t.Any, t.Any]", errors))
        return result


class Part(Strict):
    """A nested object with a schema of its own."""

    def __init__(self, schema: marshmallow.Schema, **kwargs: t.Any) -> None:
        super().__init__(**kwargs)
        self.schema = schema

    def _deserialize(self, value: t.Any, attr: str | None, data: t.Any, **kwargs: t.Any) -> t.Any:
        if not isinstance(value, Mapping):
            raise ValidationError(f"must be an object, not {shown(value)}")
        return self.schema.load(value)


class Either(Strict):
    """The first of several fields whose type fits. Their own messages are given only when one is left to blame."""

    def __init__(self, options: Sequence[fields.Field[t.Any]], kind: str, **kwargs: t.Any) -> None:
        super().__init__(**kwargs)
        self.options = tuple(options)
        self.kind = kind

    def _deserialize(self, value: t.Any, attr: str | None, data: t.Any, **kwargs: t.Any) -> t.Any:
        inner: t.Any = None
        for option in self.options:
            try:
                return option.deserialize(value)
            except ValidationError as error:
                if isinstance(error.messages, dict):
                    inner = error.messages
        if inner is not None:
            raise ValidationError(inner)
        raise ValidationError(f"must be {self.kind}, not {shown(value)}")
