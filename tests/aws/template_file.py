"""The template as values: `!Ref` and its kin in their long form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent.parent.parent / "deploy" / "aws"
TEMPLATE = FOLDER / "template.yaml"


class TemplateLoader(yaml.SafeLoader):
    """With `!Ref` and its kin in their long form."""


def long_form(loader: TemplateLoader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    kinds = {yaml.ScalarNode: loader.construct_scalar, yaml.SequenceNode: loader.construct_sequence}
    value: Any = kinds[type(node)](node)  # type: ignore[index]
    if suffix == "GetAtt":
        value = value.split(".", 1)
    return {suffix if suffix == "Ref" else f"Fn::{suffix}": value}


TemplateLoader.add_multi_constructor("!", long_form)


def load_template(path: Path = TEMPLATE) -> dict[str, Any]:
    return dict(yaml.load(path.read_text(), TemplateLoader))


def of_kind(template: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    found = {name: one["Properties"] for name, one in template["Resources"].items() if one["Type"] == kind}
    assert found
    return found
