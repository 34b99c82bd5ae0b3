"""What is in deploy/, read as the programs read it that it is for: image, services, units, manifests, command lines."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
COLLECTION = "news"
GIVEN = "given"  # for what the example of a secret leaves empty


class Line(NamedTuple):
    """A command of ours, and what it finds in its environment."""

    place: str
    words: list[str]
    environment: dict[str, str]


def lines() -> Iterator[Line]:
    yield from image_lines()
    yield from compose_lines()
    for unit in UNITS:
        yield unit_line(unit)
    yield from manifest_lines()


# --- the image ---------------------------------------------------------------------------------------------------


class Instruction(NamedTuple):
    stage: str
    name: str
    text: str


def instructions(path: Path) -> list[Instruction]:
    text = re.sub(r"^\s*#.*\n", "", path.read_text(), flags=re.MULTILINE)
    found, stage = [], ""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        name, _, rest = line.strip().partition(" ")
        if name == "FROM":
            stage = rest.partition(" AS ")[2] or rest
        if name:
            found.append(Instruction(stage, name, rest.strip()))
    return found


def image_lines() -> Iterator[Line]:
    file = instructions(DEPLOY / "Dockerfile")
    for one in file:
        if one.name == "CMD":
            variables = dict(re.findall(r"(WEBMILL_\w+)=(\S+)", " ".join(i.text for i in file if i.stage == one.stage)))
            yield Line(f"Dockerfile {one.stage}", yaml.safe_load(one.text), variables)


# --- services ----------------------------------------------------------------------------------------------------


@cache
def compose(name: str = "docker-compose.yml") -> dict[str, Any]:
    """As Docker's own program has it, with the example for variables."""
    text = (DEPLOY / name).read_text()
    found: dict[str, Any] = yaml.safe_load(interpolated(text, example()))
    return found


def example() -> dict[str, str]:
    rows = (DEPLOY / ".env.example").read_text().splitlines()
    return dict(row.split("=", 1) for row in rows if row and not row.startswith("#"))


def interpolated(text: str, variables: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        given = variables.get(found["name"]) or (found["default"] if found["kind"] == ":-" else "")
        return given or GIVEN

    return re.sub(r"\$\{(?P<name>\w+)(?:(?P<kind>:[-?])(?P<default>[^}]*))?\}", value, text)


def is_ours(image: str) -> bool:
    return image.split(":")[0] in ("webmill", "webmill-server", "webmill-ray")


def compose_lines() -> Iterator[Line]:
    for name, service in compose()["services"].items():
        if is_ours(service["image"]):
            yield Line(f"compose {name}", service["command"], service["environment"])


# --- units -------------------------------------------------------------------------------------------------------


def unit_settings(path: Path) -> list[tuple[str, str, str]]:
    """(section, key, value), in their order; a key may be there more than once."""
    found, section = [], ""
    for line in path.read_text().replace("%i", COLLECTION).splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.append((section, key, value))
    return found


def unit_line(path: Path) -> Line:
    settings = unit_settings(path)
    variables = dict(
        word.split("=", 1) for _, key, value in settings if key == "Environment" for word in shlex.split(value)
    )
    (start,) = (value for _, key, value in settings if key == "ExecStart")
    program, *words = re.sub(r"\$\{?(\w+)\}?", lambda found: variables[found[1]], start).split()
    assert program == "/usr/local/bin/webmill"
    return Line(path.name, words, {name: value for name, value in variables.items() if name.startswith("WEBMILL_")})


# --- manifests ---------------------------------------------------------------------------------------------------


@cache
def manifests() -> list[dict[str, Any]]:
    return [found for path in MANIFESTS for found in yaml.safe_load_all(path.read_text())]


def named(kind: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in manifests() if one["kind"] == kind}


def pods() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every manifest with pods, and their template."""
    for manifest in manifests():
        spec = manifest.get("spec", {})
        if manifest["kind"] == "RayCluster":
            groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
            yield from ((manifest, group["template"]) for group in groups)
        elif "template" in spec:
            yield manifest, spec["template"]


def containers(template: dict[str, Any]) -> list[dict[str, Any]]:
    return [*template["spec"].get("initContainers", []), *template["spec"]["containers"]]


def manifest_lines() -> Iterator[Line]:
    settings = named("ConfigMap")["webmill"]["data"]
    for manifest, template in pods():
        for one in containers(template):
            words = one.get("args", [])
            if "command" in one:
                words = shlex.split(one["command"][-1].partition("exec webmill ")[2])
            if is_ours(one["image"]) and manifest["kind"] != "RayCluster":
                given = {name["name"]: name.get("value", f"{GIVEN}://") for name in one.get("env", [])}
                filled = [re.sub(r"\$\((\w+)\)", lambda found, given=given: given[found[1]], word) for word in words]
                ours = {name: value for name, value in given.items() if name.startswith("WEBMILL_")}
                yield Line(f"{manifest['kind']} {one['name']}", filled, settings | ours)
