"""No command runs code that lies in a collection of somebody else, or reaches out of it (R-X01, R-X02)."""

from __future__ import annotations

import pytest

from tests.trust.commands import COMMANDS, all_commands
from tests.trust.hostile import Scene

HERE = {name: use.arguments for name, use in COMMANDS.items() if use.arguments is not None}
ORDERS = ("order_by_settings", "order_by_crawl", "order_by_links", "order_by_deep_links")
RUNS = ("dataset run", "dataset view", "dataset list", "dataset errors", "extract", "run")
READS_SETTINGS = ("crawl", "extract", "index", "publish documents", "run", "search find", "search rebuild", "serve")


def test_every_command_is_classified() -> None:
    assert all_commands() == set(COMMANDS)


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_no_command_obeys_what_lies_in_a_collection(order: str, scene: Scene) -> None:
    getattr(scene, order)()
    before = scene.home_files()
    for name, arguments in HERE.items():
        if name == "serve" and order not in ("order_by_settings", "order_by_links"):
            continue  # it serves, which ends only when it is stopped
        ended = scene.use(name, arguments)
        assert not scene.attacker.visitors, f"{name} connected to an address that the collection names"
        assert scene.home_files() == before, f"{name} changed files outside of the collection"
        assert "Traceback" not in ended.err, name


@pytest.mark.parametrize("name", READS_SETTINGS)
def test_the_refusal_names_the_setting_and_what_to_type(name: str, scene: Scene) -> None:
    scene.order_by_settings()
    ended = scene.use(name, HERE[name])
    assert ended.code == 1
    assert "webmill.toml:3: [executor] url = ray://127.0.0.1" in ended.err
    assert f"`webmill trust {scene.theirs}`" in ended.err
    assert "--executor or WEBMILL_EXECUTOR_URL" in ended.err


def test_a_crawl_that_somebody_else_began_is_not_gone_on_with_on_their_terms(scene: Scene) -> None:
    scene.order_by_crawl()
    ended = scene.use("crawl", ("{dir}", "--contact", "me@example.org", "--max-time", "1s"))
    assert ended.code == 1
    assert "flags.json: [crawl] frontier = redis://" in ended.err
    assert "--frontier or WEBMILL_CRAWL_FRONTIER" in ended.err
    assert not scene.attacker.visitors


@pytest.mark.slow
def test_no_command_runs_code_that_lies_in_a_collection(scene: Scene) -> None:
    scene.order_by_function()
    for name in RUNS:
        scene.use(name, HERE[name])
        assert not scene.marker.exists(), name


def test_the_function_of_a_dataset_runs_only_where_the_user_made_or_trusts_it(scene: Scene) -> None:
    scene.order_by_function()
    ended = scene.use("dataset run", ("{dir}/extract/theirs",))
    assert ended.code == 1
    assert "was not made by you on this machine" in ended.err
    assert not scene.marker.exists()
    scene.use("trust", ("{dir}/extract/theirs",))
    assert "was not made by you" not in scene.use("dataset run", ("{dir}/extract/theirs",)).err
    assert scene.marker.exists(), "it does run then: the test above tests something"
