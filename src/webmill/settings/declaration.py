"""What a setting is: everything that anybody needs to know of it, from the one line that declares it.

    max_pages: Annotated[int | None, setting("Stop after this many pages.", least=1, none="no limit")] = None

is the key `max_pages` of its section in webmill.toml, the variable WEBMILL_CRAWL_MAX_PAGES, the option `--max-pages`
with its help, a line of docs/reference/settings.md and of `webmill init`, and a keyword argument in Python.
"""

from __future__ import annotations

from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from webmill.settings.value_formats import Kind

Where = Literal["everywhere", "file", "command"]


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """What `setting` was told; see there."""

    help: str
    group: str = ""
    option: str = ""
    short: str = ""
    old: tuple[str, ...] = ()
    metavar: str = ""
    none: str = ""
    least: float | None = None
    most: float | None = None
    only: Where = "everywhere"
    secret: bool = False


def setting(
    help: str,  # noqa: A002 - what click and argparse call it
    *,
    group: str = "",
    option: str = "",
    short: str = "",
    old: tuple[str, ...] = (),
    metavar: str = "",
    none: str = "",
    least: float | None = None,
    most: float | None = None,
    only: Where = "everywhere",
    secret: bool = False,
) -> Declaration:
    """Declare a field of a section.

    `group` is a heading of the help. `option` is its name on the command line where that is not the key's; `short` a
    letter. `old` names are accepted and not shown. `none` says what happens when nothing is given. `least` and `most`
    bound a number. `only="file"` has no option, `only="command"` no key and no variable. A `secret` is never shown.
    """
    return Declaration(
        help=help,
        group=group,
        option=option,
        short=short,
        old=old,
        metavar=metavar,
        none=none,
        least=least,
        most=most,
        only=only,
        secret=secret,
    )


class Setting(msgspec.Struct, frozen=True):
    """One of them, with its place and its type."""

    section: str
    key: str
    type: Any
    default: Any
    declared: Declaration
    kind: Kind | None

    @property
    def description(self) -> str:
        return self.declared.help

    @property
    def variable(self) -> str:
        return f"WEBMILL_{self.section}_{self.key}".upper()

    @property
    def name(self) -> str:
        """As a keyword argument, and with dashes as the option."""
        return (self.declared.option or self.key).replace("-", "_")

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def keys(self) -> tuple[str, ...]:
        """Of webmill.toml: the one that counts, and those of before."""
        return (self.key, *self.declared.old)

    @property
    def bare_type(self) -> Any:
        """Without `None` and annotations: int, str, a Literal, a tuple."""
        return _bare(self.type)

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

    def parse(self, written: object) -> Any:
        """Return the value of what was written; ValueError is a sentence."""
        if self.is_optional and (written in ("", None) or self._means_no_limit(written)):
            return None
        try:
            read = self.kind.parse(written) if self.kind else written
            value = msgspec.convert(read, self.type, strict=False)
        except msgspec.ValidationError as error:
            told = str(error).split(" - at ", maxsplit=1)[0]
            raise ValueError(f"{told}: write {', '.join(sorted(self.choices))}" if self.choices else told) from None
        self._check(value)
        return value

    def write(self, value: Any) -> Any:
        """Return `value` as webmill.toml has it: text, number, truth or list."""
        if value is None:
            return ""
        return self.kind.write(value) if self.kind else value

    def text(self, value: Any) -> str:
        """Return `value` as people write it, in one line."""
        written = self.write(value)
        if isinstance(written, list | tuple):
            return ", ".join(written)
        return str(written).lower() if isinstance(written, bool) else str(written)

    def _means_no_limit(self, written: object) -> bool:
        """A limit of 0 pages was no limit in the files that `webmill init` wrote once."""
        return type(written) is int and written == 0 and self.declared.least == 1

    def _check(self, value: Any) -> None:
        least, most = self.declared.least, self.declared.most
        if least is not None and value is not None and value < least:
            raise ValueError(f"{value} is too small: {least:g} or more")
        if most is not None and value is not None and value > most:
            raise ValueError(f"{value} is too large: {most:g} or less")


def settings_of(section: str, kind: type[msgspec.Struct]) -> tuple[Setting, ...]:
    """Return what the fields of a section declare, in their order."""
    hints = get_type_hints(kind, include_extras=True)
    found = []
    for field in msgspec.structs.fields(kind):
        hint = hints[field.name]
        declared = next(one for one in hint.__metadata__ if isinstance(one, Declaration))
        made = field.default_factory is not msgspec.NODEFAULT
        default = field.default_factory() if made else field.default
        found.append(Setting(section, field.name, hint, default, declared, _kind(hint)))
    return tuple(found)


def _without_annotation(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _bare(hint: Any) -> Any:
    hint = _without_annotation(hint)
    inner = [part for part in get_args(hint) if part is not NoneType]
    if NoneType in get_args(hint):
        return _bare(inner[0])
    return hint


def _kind(hint: Any) -> Kind | None:
    for one in getattr(hint, "__metadata__", ()):
        if isinstance(one, Kind):
            return one
    for part in get_args(_without_annotation(hint)):
        if found := _kind(part):
            return found
    return None
