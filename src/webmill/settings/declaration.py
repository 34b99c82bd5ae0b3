"""What a setting is. One line declares everything about it:

    max_pages: Annotated[int | None, setting("Stop after this many pages.", reach="inside", least=1)] = None

This is the key `max_pages` of its section in webmill.toml, the variable WEBMILL_CRAWL_MAX_PAGES, the option
`--max-pages` with its help, a line of docs/reference/settings.md and of `webmill init`, and an argument in Python.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from webmill.masking import hide_secrets
from webmill.settings.reach import Reach, reaches_outside
from webmill.settings.value_formats import ValueFormat

AllowedIn = Literal["everywhere", "file", "command"]


class SettingHelp(msgspec.Struct, frozen=True):
    help: str


class Declaration(SettingHelp, frozen=True, kw_only=True):
    """The declaration of a field of a section.

    `reach` says whether the setting counts in a folder that the user does not trust: `webmill.settings.reach`. `group`
    is a heading of the help. `option` is the name on the command line, if it is not the key; `short` is a letter. `old`
    names are accepted but not shown. `none` says what happens without a value. `least` and `most` bound a number.
    `only="file"` has no option, `only="command"` no key and no variable. A `secret` is never shown.
    """

    reach: Reach
    group: str = ""
    option: str = ""
    short: str = ""
    old: tuple[str, ...] = ()
    metavar: str = ""
    none: str = ""
    least: float | None = None
    most: float | None = None
    only: AllowedIn = "everywhere"
    secret: bool = False


setting = Declaration  # as it reads in an annotation


class Setting(msgspec.Struct, frozen=True):
    """A setting with its section, key and type."""

    section: str
    key: str
    type: Any
    default: Any
    declared: Declaration
    kind: ValueFormat | None

    @property
    def description(self) -> str:
        return self.declared.help

    @property
    def variable(self) -> str:
        return f"WEBMILL_{self.section}_{self.key}".upper()

    @property
    def name(self) -> str:
        """Return the name of the keyword argument; with dashes it is the option."""
        return (self.declared.option or self.key).replace("-", "_")

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the key in webmill.toml, and its old names."""
        return (self.key, *self.declared.old)

    @property
    def bare_type(self) -> Any:
        """Return the type without `None` and annotations: int, str, a Literal, a tuple."""
        return _bare_type(self.type)

    @property
    def choices(self) -> tuple[str, ...]:
        one = get_args(self.bare_type)[0] if self.is_list else self.bare_type
        return get_args(one) if get_origin(one) is Literal else ()

    @property
    def is_optional(self) -> bool:
        return NoneType in get_args(_without_annotation(self.type))

    @property
    def is_list(self) -> bool:
        return get_origin(self.bare_type) in (tuple, list, dict)

    @property
    def is_switch(self) -> bool:
        return self.bare_type is bool

    def reaches_outside(self, value: Any, *, folder: Path) -> bool:
        """Return whether this value, in a file of `folder`, needs the user's trust in that folder."""
        return reaches_outside(self.declared.reach, value, self.default, folder=folder)

    def parse(self, written: object) -> Any:
        """Return the value of a text or TOML value; raise ValueError with a sentence for people."""
        if self.is_optional and (written in ("", None) or self._means_no_limit(written)):
            return None
        try:
            read = self.kind.parse(written) if self.kind else written
            value = msgspec.convert(read, self.type, strict=False)
        except msgspec.ValidationError as error:
            message = str(error).split(" - at ", maxsplit=1)[0]
            raise ValueError(
                f"{message}: write {', '.join(sorted(self.choices))}" if self.choices else message
            ) from None
        self._check(value)
        return value

    def write(self, value: Any) -> Any:
        """Return `value` as it is written in webmill.toml: text, number, boolean or list."""
        if value is None:
            return self.kind.none if self.kind else ""
        return self.kind.write(value) if self.kind else value

    def text(self, value: Any) -> str:
        """Return `value` as people write it, in one line."""
        written = self.write(value)
        if isinstance(written, list | tuple):
            return ", ".join(one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in written)
        return str(written).lower() if isinstance(written, bool) else str(written)

    def shown(self, value: Any) -> str:
        """Return `value` as it may be printed: without passwords and keys."""
        return "(set)" if self.declared.secret and value else hide_secrets(self.text(value))

    def _means_no_limit(self, written: object) -> bool:
        """Return whether this is the 0 that means no limit in files of older versions."""
        return type(written) is int and written == 0 and self.declared.least == 1

    def _check(self, value: Any) -> None:
        least, most = self.declared.least, self.declared.most
        if least is not None and value is not None and value < least:
            raise ValueError(f"{value} is too small: use {least:g} or more")
        if most is not None and value is not None and value > most:
            raise ValueError(f"{value} is too large: use {most:g} or less")


def read_declarations(section: str, kind: type[msgspec.Struct]) -> tuple[Setting, ...]:
    """Return the settings that the fields of a section declare, in their order."""
    hints = get_type_hints(kind, include_extras=True)
    found = []
    for field in msgspec.structs.fields(kind):
        hint = hints[field.name]
        declared = next(one for one in hint.__metadata__ if isinstance(one, Declaration))
        made = field.default_factory is not msgspec.NODEFAULT
        default = field.default_factory() if made else field.default
        found.append(Setting(section, field.name, hint, default, declared, _find_format(hint)))
    return tuple(found)


def _without_annotation(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _bare_type(hint: Any) -> Any:
    hint = _without_annotation(hint)
    inner = [part for part in get_args(hint) if part is not NoneType]
    if NoneType in get_args(hint):
        return _bare_type(inner[0])
    return hint


def _find_format(hint: Any) -> ValueFormat | None:
    for one in getattr(hint, "__metadata__", ()):
        if isinstance(one, ValueFormat):
            return one
    for part in get_args(_without_annotation(hint)):
        if found := _find_format(part):
            return found
    return None
