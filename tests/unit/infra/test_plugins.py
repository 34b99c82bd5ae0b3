"""Plugins: where they come from, what is refused, and what becomes of one that fails."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from webmill.errors import BadInput, Misconfigured
from webmill.infra.plugins.costs import add_up, read_spent, record_spent, spent_on
from webmill.infra.plugins.loaded import Plugins, load_plugins
from webmill.infra.plugins.sources import VARIABLE, find_plugins, plugin_folder
from webmill.model import Document

DOCUMENT = Document(id="1", url="u")
HEAD = "from webmill import hookimpl\n"
NO_PRINTS = HEAD + "@hookimpl\ndef scope(url, depth):\n    return False if '/print/' in url else None\n"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_STATE_HOME": str(tmp_path / "state")}


def put(environment: Mapping[str, str], name: str, code: str) -> Path:
    folder = plugin_folder(environment)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(code)
    return folder / name


def loaded(tmp_path: Path, code: str) -> Plugins:
    file = tmp_path / "mine.py"
    file.write_text(HEAD + code)
    return load_plugins(find_plugins({VARIABLE: str(file), "XDG_CONFIG_HOME": str(tmp_path)}))


def test_plugins_are_found_in_the_users_own_folder_and_where_the_variable_says(
    environment: dict[str, str], tmp_path: Path
) -> None:
    assert find_plugins(environment) == ()
    put(environment, "b.py", NO_PRINTS)
    other = tmp_path / "a.py"
    other.write_text(NO_PRINTS)
    found = find_plugins({**environment, VARIABLE: str(other)})
    assert [one.name for one in found] == ["b", "a"]
    assert found[0].version == found[1].version, "they are the same code"
    assert find_plugins({**environment, VARIABLE: "off"}) == ()


def test_two_plugins_of_one_name_are_refused(environment: dict[str, str], tmp_path: Path) -> None:
    put(environment, "a.py", NO_PRINTS)
    (tmp_path / "a.py").write_text(NO_PRINTS)
    with pytest.raises(Misconfigured, match="two plugins are called a"):
        find_plugins({**environment, VARIABLE: str(tmp_path / "a.py")})


@pytest.mark.parametrize("place", ["file", "folder"])
def test_what_others_can_write_is_no_plugin(environment: dict[str, str], place: str) -> None:
    file = put(environment, "a.py", NO_PRINTS)
    (file if place == "file" else file.parent).chmod(0o777)
    with pytest.raises(Misconfigured, match="can be written by others"):
        find_plugins(environment)


def test_a_file_that_changes_after_it_was_found_is_not_run(environment: dict[str, str], tmp_path: Path) -> None:
    file = put(environment, "a.py", NO_PRINTS)
    found = find_plugins(environment)
    file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(Misconfigured, match="changed while webmill was running"):
        load_plugins(found)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import nothing_of_that_name", "ModuleNotFoundError"),
        ("def broken(:", "SyntaxError"),
        ("@hookimpl\ndef scop(url): ...", "scop"),
        ("@hookimpl\ndef scope(url, height): ...", "height"),
        ("@hookimpl(wrapper=True)\ndef scope(url):\n    return (yield)", "wrapper"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_named_with_the_reason(tmp_path: Path, code: str, said: str) -> None:
    with pytest.raises(Misconfigured, match=rf"(?s)mine.*{said}"):
        loaded(tmp_path, code)


def test_the_first_opinion_on_a_link_counts(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(NO_PRINTS)
    (tmp_path / "b.py").write_text(HEAD + "@hookimpl\ndef scope(url):\n    return url.startswith('https://b.example/')")
    named = f"{tmp_path / 'b.py'}:{tmp_path / 'a.py'}"
    plugins = load_plugins(find_plugins({VARIABLE: named, "XDG_CONFIG_HOME": str(tmp_path)}))
    assert plugins.judge_link("https://b.example/print/", 1) is True
    assert plugins.judge_link("https://a.example/print/", 1) is False
    assert Plugins().judge_link("https://a.example/print/", 1) is None


def test_a_hook_that_raises_is_an_error_with_the_name_of_the_plugin(tmp_path: Path) -> None:
    plugins = loaded(tmp_path, "@hookimpl\ndef extract(html):\n    return html[7]")
    with pytest.raises(BadInput, match=r"the plugin mine failed in `extract`: IndexError") as caught:
        plugins.extract_text("short", "https://a.example/")
    assert caught.value.reason == "plugin_failed"
    assert spent_on(plugins)[0].cost.failed == 1


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("@hookimpl\ndef scope(url):\n    return 1", lambda one: one.judge_link("https://a.example/", 1)),
        ("@hookimpl\ndef extract(html):\n    return b''", lambda one: one.extract_text("", "")),
        (
            "@hookimpl\ndef document(document):\n    return 'x'",
            lambda one: one.change_document(Document(id="1", url="u")),
        ),
        ("@hookimpl\ndef before_request(url):\n    return {'A': 'b\\r\\nC: d'}", lambda one: one.request_fields("u")),
        ("@hookimpl\ndef after_response(url):\n    return 'u'", lambda one: one.more_links("u", 200, {}, b"")),
    ],
)
def test_what_a_hook_returns_is_checked(tmp_path: Path, code: str, call: object) -> None:
    with pytest.raises(BadInput, match="the plugin mine returned"):
        call(loaded(tmp_path, code))  # type: ignore[operator]


def test_each_plugin_gets_the_document_that_the_one_before_has_returned(tmp_path: Path) -> None:
    code = "import msgspec\n@hookimpl\ndef document(document):\n"
    for name in ("a", "b"):
        change = f"    return msgspec.structs.replace(document, title=(document.title or '') + '{name}')"
        (tmp_path / f"{name}.py").write_text(HEAD + code + change)
    named = f"{tmp_path / 'b.py'}:{tmp_path / 'a.py'}"
    plugins = load_plugins(find_plugins({VARIABLE: named, "XDG_CONFIG_HOME": str(tmp_path)}))
    assert plugins.change_document(Document(id="1", url="u")).title == "ba"


def test_what_hooks_cost_is_added_up_over_processes(environment: dict[str, str], tmp_path: Path) -> None:
    plugins = loaded(tmp_path, "@hookimpl\ndef scope(url):\n    return None")
    for _ in range(3):
        plugins.judge_link("https://a.example/", 1)
        plugins.judge_link("https://b.example/", 1)
        record_spent(add_up(spent_on(plugins)), environment)
    assert spent_on(plugins) == [], "it was taken"
    ((plugin, _, hook), cost), *rest = read_spent(environment).items()
    assert (plugin, hook, cost.calls, rest) == ("mine", "scope", 6, [])


def test_a_damaged_record_of_costs_is_skipped(environment: dict[str, str], tmp_path: Path) -> None:
    plugins = loaded(tmp_path, "@hookimpl\ndef scope(url):\n    return None")
    plugins.judge_link("https://a.example/", 1)
    record_spent(spent_on(plugins), environment)
    file = tmp_path / "state" / "webmill" / "plugin-costs.jsonl"
    file.write_bytes(b"\xff{}\n" + file.read_bytes() + b'{"plugin": 1')
    assert [cost.calls for cost in read_spent(environment).values()] == [1]
