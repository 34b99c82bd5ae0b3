"""`webmill curate run`: measure what was not measured yet, then mix.

    documents/ ─▶ corpus/attributes/ (tasks over files) ─▶ corpus/decisions/ (one mix, replaced as a whole)

What is decided depends on the documents and the recipe alone: any number of workers, a run that was killed and started
again, and a run over what is new give the bytes of a run from scratch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from webmill.collection import PublishFolders
from webmill.curate.arrow import import_arrow
from webmill.curate.attributes import AttributeStore, DocumentPart
from webmill.curate.decisions import CorpusDecisions, is_decision_file, write_decisions
from webmill.curate.dedup.steps import DuplicateStep
from webmill.curate.filters.usage import COLUMNS as RESPECTED
from webmill.curate.filters.usage import UsageFilter
from webmill.curate.mixing import CorpusMix, EarlierPart
from webmill.curate.recipe import CurateRecipe, load_recipe
from webmill.curate.report import CurateReport
from webmill.errors import Misconfigured, NotFound, WrongUse
from webmill.infra import atomic, lock, swap
from webmill.infra.executor.backends import open_executor
from webmill.infra.executor.base import Executor, TaskDone, TaskFailed
from webmill.pipeline.curate.plugin_functions import with_plugin_functions
from webmill.pipeline.curate.sources import KnownDigests, require_documents
from webmill.pipeline.curate.tasks import MeasureTask, attribute_keys, find_tasks, measure_part
from webmill.pipeline.progress import ProgressReporter
from webmill.pipeline.trust import is_trusted
from webmill.settings import Settings

log = logging.getLogger(__name__)

ATTRIBUTES, DECISIONS = "attributes", "decisions"
LOCK = "curate"


class CurateResult(msgspec.Struct, kw_only=True):
    """What a run did, and what it decided."""

    files: int = 0
    measured: int = 0  # files in this run
    removed_attributes: int = 0  # files that nothing asked for any more
    unreadable: int = 0  # rows
    problems: list[str] = []
    report: CurateReport | None = None


class CuratePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a run would do."""

    recipe: CurateRecipe
    documents: str
    files: int
    due: int  # files that lack attributes
    lacking: dict[str, int]  # by step: files that it has not measured


def choose_curate_recipe(root: Path, settings: Settings) -> CurateRecipe:
    """Return the recipe of the settings. `Misconfigured`: it runs code, and lies in a collection without trust."""
    named = settings.curate.recipe
    inside = (root / named).is_file() and not Path(named).is_file()
    recipe = load_recipe(named, folder=root if inside else Path())
    path = (root / named if inside else Path(named)).resolve()
    code = next((step.title for step in recipe.steps if step.runs_code), None)
    if code and path.is_relative_to(root.resolve()) and not is_trusted(root):
        raise Misconfigured(
            f"{path}: step {code!r} runs code that the recipe names, and you have not said that you trust {root}. "
            f"If it is yours, run `webmill trust {root}`"
        )
    return recipe


def curate_collection(
    root: Path,
    settings: Settings,
    *,
    progress: ProgressReporter,
    origin: str | None = None,
    recipe: CurateRecipe | None = None,
) -> CurateResult:
    """Curate the documents of a collection, or those at `origin`, by the recipe of the settings."""
    chosen = respecting(recipe or choose_curate_recipe(root, settings), settings)
    with closing(open_executor(settings.executor.url, workers=settings.executor.jobs)) as executor:
        return curate_documents(root, chosen, executor=executor, progress=progress, documents=origin or str(root))


def respecting(recipe: CurateRecipe, settings: Settings) -> CurateRecipe:
    """Return the recipe as it is run: with the filters of plugins, and with a first step that leaves out what sites
    forbid, if the settings want it."""
    recipe = with_plugin_functions(recipe)
    chosen = settings.curate
    if not chosen.respect:
        return recipe
    uses = tuple(dict.fromkeys(use.strip() for listed in chosen.respect for use in listed.split(",") if use.strip()))
    if unknown := [use for use in uses if use not in RESPECTED]:
        raise WrongUse(f"--respect {unknown[0]}: choose from {', '.join(RESPECTED)}")
    first = UsageFilter(name="respect", respect=uses, on_unknown=chosen.on_unknown)
    return msgspec.structs.replace(recipe, steps=(first, *recipe.steps))


def plan_curation(root: Path, settings: Settings, *, origin: str | None = None) -> CuratePlan:
    """Return what a run would measure."""
    recipe = respecting(choose_curate_recipe(root, settings), settings)
    documents = origin or str(root)
    parts = known_digests(root).list_parts(require_documents(documents))
    tasks = find_tasks(recipe, parts, attribute_store(root), documents=documents)
    lacking = {
        step.title: sum(recipe.key_of(number) in task.keys for task in tasks)
        for number, step in enumerate(recipe.steps)
    }
    return CuratePlan(recipe=recipe, documents=documents, files=len(parts), due=len(tasks), lacking=lacking)


def attribute_store(root: Path) -> AttributeStore:
    return AttributeStore(PublishFolders(root).corpus / ATTRIBUTES)


def known_digests(root: Path) -> KnownDigests:
    return KnownDigests(PublishFolders(root).curate_state / "digests.json")


def decisions_folder(root: Path) -> Path:
    return PublishFolders(root).corpus / DECISIONS


def open_corpus(root: Path) -> CorpusDecisions:
    """Return what was decided of a collection. `NotFound`: nothing yet."""
    return CorpusDecisions(decisions_folder(root))


def curate_documents(
    root: Path, recipe: CurateRecipe, *, executor: Executor, progress: ProgressReporter, documents: str
) -> CurateResult:
    """Measure and mix. `Conflict`: another run is at it. `Unavailable`: the disk is full or failing; what was there
    before is still there, and the next run goes on."""
    import_arrow()
    digests, began_ns = known_digests(root), time.time_ns()
    parts = digests.list_parts(require_documents(documents))
    corpus = PublishFolders(root).corpus
    atomic.make_folder(corpus)
    store = attribute_store(root)
    result = CurateResult(files=len(parts))
    with lock.exclusive(corpus, LOCK, doing="curating"):
        swap.remove_unfinished(decisions_folder(root), beside=corpus)
        digests.save(began_ns=began_ns)
        tasks = find_tasks(recipe, parts, store, documents=documents)
        measure_all(tasks, executor, progress=progress, result=result)
        result.report = mix_corpus(root, recipe, parts, documents=documents, progress=progress)
        result.unreadable = result.report.unreadable
        keys = attribute_keys(recipe)
        result.removed_attributes = store.remove_others([(key, part) for key in keys for part in parts])
        store.remove_unfinished()
    return result


def measure_all(
    tasks: Sequence[MeasureTask], executor: Executor, *, progress: ProgressReporter, result: CurateResult
) -> None:
    with (
        progress("Measuring", total=len(tasks), unit="files") as counter,
        closing(executor.run(measure_part, tasks)) as outcomes,
    ):
        for outcome in outcomes:
            counter.advance()
            match outcome:
                case TaskDone(value=done):
                    result.measured += 1
                    result.problems += done.problems
                case TaskFailed(error=None, item=task, reason=reason):
                    log.warning("measuring failed", extra={"file": task.part.key, "trace": outcome.trace})
                    raise Misconfigured(f"{task.part.key} could not be measured: {reason}")
                case TaskFailed(error=error):
                    assert error
                    raise error


def mix_corpus(
    root: Path, recipe: CurateRecipe, parts: Sequence[DocumentPart], *, documents: str, progress: ProgressReporter
) -> CurateReport:
    corpus = PublishFolders(root).corpus
    earlier = [earlier_parts(recipe, number) for number in range(len(recipe.steps))]
    with (
        progress("Mixing", total=1, unit="corpora") as counter,
        swap.replacing(decisions_folder(root), beside=corpus, is_ours=is_decision_file) as fresh,
    ):
        mix = CorpusMix(recipe, attribute_store(root), parts, work=fresh, earlier=earlier)
        mix.run()
        report = write_decisions(mix, fresh, documents="" if documents == str(root) else documents)
        remove_others(fresh)
        counter.advance()
    return report


def remove_others(folder: Path) -> None:
    """Remove what the mix worked with."""
    for path in folder.iterdir():
        if not is_decision_file(path.name):
            path.unlink()


def earlier_parts(recipe: CurateRecipe, number: int) -> list[EarlierPart]:
    """Return the attributes of the corpora that a step compares with. `NotFound`: one was made by other parameters."""
    step = recipe.steps[number]
    if not isinstance(step, DuplicateStep):
        return []
    found = []
    for place in step.against:
        root = Path(place)
        corpus = open_corpus(root)
        key = _same_measure(corpus.recipe, step)
        if not key:
            raise NotFound(
                f"{place} has nothing to compare with: its recipe has no step `{step.use}` with the same parameters"
            )
        store = attribute_store(root)
        found += [EarlierPart(store, key, part, corpus.kept(part)) for part in corpus.parts]
    return found


def _same_measure(recipe: CurateRecipe, step: DuplicateStep) -> str | None:
    """Return the key of what a step with the same parameters measured."""
    wanted = step.parameters()
    numbers = (number for number, one in enumerate(recipe.steps) if one.parameters() == wanted)
    return next((recipe.key_of(number) for number in numbers), None)
