"""The image and the compose files, as far as they can be checked without an engine."""

from __future__ import annotations

import fnmatch
import importlib.metadata
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.unit.deploy_files import DEPLOY, ROOT, compose, example, instructions, is_ours

DOCKERFILE = DEPLOY / "Dockerfile"
FILES = ("docker-compose.yml", "docker-compose.host.yml")
PINNED = re.compile(r"[^:]+:v?\d+\.\d+\.\d+(-[\w.-]+)?")
SERVICES = {name: service for file in FILES for name, service in compose(file)["services"].items()}
OURS = {name: service for name, service in compose()["services"].items() if is_ours(service["image"])}


# --- the image ---------------------------------------------------------------------------------------------------


def ignored(path: str) -> bool:
    """By the rules of .dockerignore, of which the last that fits counts."""
    answer = False
    for rule in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = rule.removeprefix("!")
        parents = [path, *map(str, Path(path).parents)]
        if pattern and not rule.startswith("#") and any(fits(one, pattern) for one in parents):
            answer = not rule.startswith("!")
    return answer


def fits(path: str, pattern: str) -> bool:
    name = pattern.removeprefix("**/")
    return fnmatch.fnmatchcase(Path(path).name if name != pattern else path, name) and path != "."


@pytest.mark.parametrize("dockerfile", ["Dockerfile", "aws/Dockerfile"])
def test_what_is_copied_is_there_and_reaches_the_build(dockerfile: str) -> None:
    copies = [one.text.split() for one in instructions(DEPLOY / dockerfile) if one.name == "COPY"]
    sources = [source for words in copies if not words[0].startswith("--from") for source in words[:-1]]
    assert sources
    assert [source for source in sources if not (ROOT / source).exists() or ignored(source)] == []
    assert not ignored("src/webmill/cli/main.py")


def test_nothing_of_a_working_folder_reaches_the_build() -> None:
    for path in (
        ".git/config",
        ".venv/bin/python",
        "deploy/.env",
        "news/webmill.toml",
        "src/webmill/__pycache__/a.pyc",
    ):
        assert ignored(path)


def test_stages_are_named_and_bases_pinned() -> None:
    file = instructions(DOCKERFILE)
    given = dict(one.text.split("=", 1) for one in file if one.name == "ARG")
    stages: set[str] = set()
    for one in file:
        if one.name == "FROM":
            base = one.text.partition(" AS ")[0].replace("${PYTHON}", given["PYTHON"])
            assert base in stages or PINNED.fullmatch(base)
            stages.add(one.stage)
    froms = {one.text.split()[0] for one in file if one.name == "COPY" and "--from" in one.text}
    assert froms == {"--from=build"}


def test_it_is_not_run_as_root_and_stops_as_we_do() -> None:
    printed = {(one.stage, one.name): one.text for one in instructions(DOCKERFILE)}
    assert printed["webmill", "USER"] == "10001:10001"
    assert printed["webmill", "STOPSIGNAL"] == "SIGTERM"
    assert printed["webmill", "ENTRYPOINT"] == '["webmill"]'
    assert "/healthz" in printed["server", "HEALTHCHECK"]
    assert ("webmill", "HEALTHCHECK") not in printed  # a crawler answers no requests


def test_extras_are_extras() -> None:
    known = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    text = "".join(path.read_text() for path in (DOCKERFILE, DEPLOY / "kubernetes" / "ray.yaml"))
    named = {extra for list_ in re.findall(r"EXTRAS=([\w,]+)", text) for extra in list_.split(",")}
    assert named
    assert named <= known


def test_all_that_can_be_installed_is_locked() -> None:
    """The image takes versions and hashes from requirements/dev.txt: what is not there would come unchecked."""
    locked = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements" / "dev.txt").read_text(), re.MULTILINE))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert closure("webmill", frozenset(extras)) - {"webmill"} <= locked


def closure(name: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]] | None = None) -> set[str]:
    """Names of all that a distribution needs, as far as it is installed here."""
    seen = set() if seen is None else seen
    if (name, extras) in seen:
        return set()
    seen.add((name, extras))
    try:
        needs = [Requirement(line) for line in importlib.metadata.requires(name) or ()]
    except importlib.metadata.PackageNotFoundError:
        return {name}
    wanted = [one for one in needs if not one.marker or any(one.marker.evaluate({"extra": e}) for e in ("", *extras))]
    below = (closure(canonicalize_name(one.name), frozenset(one.extras), seen) for one in wanted)
    return {name}.union(*below)


def test_hadolint_finds_nothing() -> None:
    program = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    assert program, "hadolint comes with the test environment"
    run = subprocess.run([program, "--no-color", str(DOCKERFILE)], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "")


# --- services ----------------------------------------------------------------------------------------------------


def test_images_of_others_are_pinned() -> None:
    others = {service["image"] for service in SERVICES.values() if not is_ours(service["image"])}
    assert others
    assert [image for image in others if not PINNED.fullmatch(image)] == []


@pytest.mark.parametrize("name", OURS)
def test_a_service_of_ours_can_do_little(name: str) -> None:
    service = OURS[name]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["stop_grace_period"] == "90s"
    assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    stages = {one.stage for one in instructions(DOCKERFILE)}
    assert service["build"].get("target", "command") in stages


def test_all_but_the_tool_have_limits_and_others_a_check_of_their_health() -> None:
    for name, service in compose()["services"].items():
        if name != "tool":
            assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory", "pids"}
        if not is_ours(service["image"]) or name == "server":
            assert service["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL")


def test_a_part_can_be_started_by_itself() -> None:
    services = compose()["services"]
    for service in services.values():
        assert service["profiles"]
        for other in service.get("depends_on", ()):
            assert set(service["profiles"]) <= set(services[other]["profiles"])
            assert "healthcheck" in services[other]


@pytest.mark.parametrize("file", FILES)
def test_volumes_are_declared_and_folders_are_there(file: str) -> None:
    content = compose(file)
    named = [source_of(volume) for service in content["services"].values() for volume in service.get("volumes", ())]
    for source in filter(None, named):
        assert (DEPLOY / source).exists() if source.startswith(".") else source in content["volumes"]
    assert set(content["volumes"]) <= set(named)


def source_of(volume: str | dict[str, Any]) -> str:
    return volume.get("source", "") if isinstance(volume, dict) else volume.split(":")[0]


@pytest.mark.parametrize("file", FILES)
def test_ports_are_of_this_machine_alone(file: str) -> None:
    ports = [port for service in compose(file)["services"].values() for port in service.get("ports", ())]
    assert ports
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_the_example_has_every_variable_and_no_secret() -> None:
    text = "".join((DEPLOY / file).read_text() for file in FILES)
    used = set(re.findall(r"\$\{(\w+)", text))
    given = example()
    assert used == set(given)
    needed = set(re.findall(r"\$\{(\w+):\?", text))
    assert {name for name, value in given.items() if not value} == needed
    assert {name for name in given if re.search("PASSWORD|TOKEN|SECRET", name)} <= needed


def test_prometheus_asks_every_service_that_has_numbers_at_its_port() -> None:
    jobs = yaml.safe_load((DEPLOY / "prometheus" / "compose.yml").read_text())["scrape_configs"]
    asked = {where["names"][0]: where["port"] for job in jobs for where in job["dns_sd_configs"]}
    assert {job["job_name"] for job in jobs} == set(asked)
    reported = {name: port for name, service in OURS.items() if (port := metrics_port(service["command"]))}
    assert asked == reported | {"server": 8080, "rabbitmq": 15692}


def metrics_port(words: list[str]) -> int | None:
    found = re.search(r"--metrics-port[= ](\d+)", " ".join(words))
    return int(found[1]) if found else None


def test_nginx_finds_the_server() -> None:
    """Its file is for one machine: what the service replaces in it must be there."""
    conf = (DEPLOY / "nginx" / "webmill.conf").read_text()
    assert len(re.findall(r"127\.0\.0\.1:808", conf)) == 2
    words = " ".join(compose()["services"]["nginx"]["command"])
    assert r"s/127\.0\.0\.1:808/server:808/" in words
    assert "/srv/webmill/news" in conf
    assert "server_name archive.example.org" in conf
    assert "server_name replay.example.net *.replay.example.net" in conf
    assert [example()["ADDRESS"], example()["REPLAY_ZONE"]] == [
        "http://archive.example.org",
        "http://replay.example.net",
    ]
