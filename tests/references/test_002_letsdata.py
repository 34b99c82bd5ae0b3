"""The document of letsdata-common-crawl: three files joined into one document per page, as tasks of a service."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.pipeline.datasets import create, lines_of, run, snapshot, views, write_files, write_triple
from tests.references.claim import differs, works
from tests.services.aws_streams import Streams, streams_of_ministack
from tests.unit.cli.command import webmill
from tests.unit.commoncrawl.triples import CLD2, Spec, Triple, make_plain, make_triple, pages
from tests.unit.compat import letsdata_descriptions, letsdata_readers
from webmill.commoncrawl.aligned import read_pages
from webmill.commoncrawl.grammar import check_file, read_documents
from webmill.commoncrawl.page import ErrorDocument
from webmill.compat.index_record import IndexRecord, decode, make_index_record
from webmill.compat.letsdata.config import load_description
from webmill.formats.languages import DetectedLanguages
from webmill.formats.warc.typed_records import FileType, TypedRecord
from webmill.pipeline.extract.manifest import parse_line, parse_manifest

WARC, WAT, WET = FileType.WARC, FileType.WAT, FileType.WET
TWO = [Spec("a", extra=(("WARC-Protocol", "h2"), ("X-Unknown", "1"))), Spec("b")]
MANIFEST = """\
Archive : file1.archive | Metadata : file1.metadata | Conversion : file1.conversion
Archive : file2.archive | Metadata : file2.metadata | Conversion : file2.conversion
"""


def records(triple: Triple, file_type: FileType) -> list[TypedRecord]:
    found = [*read_documents(io.BytesIO(triple.of(file_type)), file_type=file_type)]
    assert not any(isinstance(one, ErrorDocument) for one in found)
    return found  # type: ignore[return-value]  # none is an error


def structure(triple: Triple, file_type: FileType) -> list[tuple[str | None, str]]:
    return [(one.record.type, one.document_kind) for one in records(triple, file_type)]


# --- the data model ---------------------------------------------------------------------------------------------------


@works("it has three filetypes the Archive (WARC), Metadata (WAT) and Conversion (WET) files")
@works("each data record (crawled link) has data that is spread across these three files")
def test_a_page_has_what_the_three_files_say() -> None:
    page = next(pages(make_triple(TWO).read()))
    assert page.http is not None
    assert page.http_request is not None
    assert (page.http.status, page.http_request.method) == (200, "GET")
    assert (page.title, page.text) == ("Title of a", "Title of a\nBody of a")
    assert page.offsets.keys() == {WARC, WAT, WET}


@works("the archive file state machine is REQUEST -> RESPONSE -> METADATA for each crawled link")
@works("the metadata file state machine is METADATA (Request) -> METADATA(Response) -> METADATA(Metadata)")
@works("the conversion file state machine is simple – a single CONVERSION record for each crawled link")
def test_the_state_machines_of_the_three_files_are_checked() -> None:
    triple = make_triple(TWO)
    for file_type in FileType:
        assert [*check_file(io.BytesIO(triple.of(file_type)), file_type=file_type)] == []
    missing = make_triple([Spec("a", request=False)])
    (finding,) = check_file(io.BytesIO(missing.warc), file_type=WARC)
    assert (finding.expected, finding.found) == (("request",), "response")


@differs(
    "The reader validates the state machine from the parsers: request -> response - metadata -> request ....",
    now="any order is read, revisits and resources too; `check_file` reports another order",
    why="other crawlers write other files",
)
def test_a_page_without_its_request_is_a_page() -> None:
    made = [*pages(make_triple([Spec("a", request=False), Spec("b", metadata=False)]).read())]
    assert [page.target_uri for page in made] == ["https://example.org/a", "https://example.org/b"]


@works("define how to create an object from a byte array and validating the integrity of the object")
def test_a_record_whose_content_was_changed_is_an_error() -> None:
    triple = make_plain([Spec("a")])
    changed = triple.replacing(WARC, triple.warc.replace(b"Body of a", b"body of a"))
    (found,) = changed.read()
    assert isinstance(found, ErrorDocument)
    assert found.reason == "digest_mismatch"


@differs(
    "The different WARC Record Types are: warcinfo responseDocument, resource request metadata revisit conversion …",
    now="the same, with `response` for `responseDocument`",
    why="the name in the WARC standard",
)
def test_every_type_of_record_has_its_name() -> None:
    names = ["warcinfo", "response", "resource", "request", "metadata", "revisit", "conversion", "continuation"]
    for name in names:
        head = f"WARC/1.0\r\nWARC-Type: {name}\r\nWARC-Record-ID: <urn:x>\r\nContent-Length: 0\r\n\r\n\r\n\r\n"
        (found,) = read_documents(io.BytesIO(head.encode()), file_type=WARC)
        assert isinstance(found, TypedRecord)
        assert found.record.type == name


@works("WARC file structure: 'warcinfo' WARC_WARCINFO_PAYLOAD, 'request' WARC_HTTP_REQUEST_PAYLOAD, …")
def test_the_structure_of_a_warc_file() -> None:
    page = [
        ("request", "WARC_HTTP_REQUEST_PAYLOAD"),
        ("response", "WARC_HTTP_RESPONSE_PAYLOAD"),
        ("metadata", "WARC_METADATA_PAYLOAD"),
    ]
    assert structure(make_triple(TWO), WARC) == [("warcinfo", "WARC_WARCINFO_PAYLOAD"), *page, *page]


@works("WAT file structure: 'warcinfo' WAT_WARCINFO_PAYLOAD, 'metadata' WAT_METADATA_WARC_WARCINFO_PAYLOAD, …")
def test_the_structure_of_a_wat_file() -> None:
    page = [("metadata", f"WAT_METADATA_WARC_{kind}_PAYLOAD") for kind in ("REQUEST", "RESPONSE", "METADATA")]
    info = [("warcinfo", "WAT_WARCINFO_PAYLOAD"), ("metadata", "WAT_METADATA_WARC_WARCINFO_PAYLOAD")]
    assert structure(make_triple(TWO), WAT) == [*info, *page, *page]


@works("WET file structure: 'warcinfo' WET_WARCINFO_PAYLOAD, 'conversion' WET_CONVERSION_PAYLOAD, …")
def test_the_structure_of_a_wet_file() -> None:
    texts = [("conversion", "WET_CONVERSION_PAYLOAD")] * 2
    assert structure(make_triple(TWO), WET) == [("warcinfo", "WET_WARCINFO_PAYLOAD"), *texts]


@works("WARC_METADATA_PAYLOAD: values such as the detected charsets, languages and the confidence scores")
@works("enums for different filetypes, headers, languages and language stats")
def test_languages_have_their_scores() -> None:
    found = next(pages(make_triple(TWO).read())).languages
    assert isinstance(found, DetectedLanguages)
    language = found.languages[0]
    assert (found.reliable, language.name, language.score, language.covered) == (True, "GERMAN", 9.0, 0.99)
    assert json.loads(CLD2)["reliable"] is True


@works("metas element, link element, script element, http headers etc, to allow for easy lookups")
def test_the_elements_of_a_page_are_looked_up() -> None:
    body = (
        "<head><title>T</title><meta name=keywords content='a, b'><link rel=icon href=/i.png>"
        "<script src=/s.js></script></head><body><a href=/next>n</a>"
    )
    (page,) = pages(read_pages(io.BytesIO(make_triple([Spec("a", body=body)]).warc)))
    assert page.html is not None
    assert page.http is not None
    head = page.html.head
    assert (head.metas[0].content, head.links[0].url, head.scripts[0].url) == ("a, b", "/i.png", "/s.js")
    assert (page.http.content_type, page.links[0].url) == ("text/html", "/next")


@works("The WAT metadata records have a lot of detailed metadata: container records for Envelope and Payload")
def test_a_wat_record_has_its_envelope() -> None:
    triple = make_triple(TWO)
    page = next(pages(triple.read()))
    assert page.description is not None
    assert page.description.type == "response"
    assert page.description.html is not None
    assert page.description.html.head.title == "Title of a"


@works("Each file starts with a warcinfo record")
def test_the_warcinfo_of_each_file_is_read() -> None:
    triple = make_triple(TWO)
    for file_type in FileType:
        first: Any = records(triple, file_type)[0]
        assert first.info.is_part_of == "TEST"


@works("These POJOs can be reused by projects that may not be using #Let's Data")
def test_the_record_types_need_nothing_else_of_webmill() -> None:
    code = (
        "import sys, webmill.formats.warc.typed_records\n"
        "rooms = {name.split('.')[1] for name in sys.modules if name.startswith('webmill.')}\n"
        "assert rooms <= {'formats', 'model', 'columns', 'errors'}, rooms"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- joining ----------------------------------------------------------------------------------------------------------


@differs(
    "a page without a WET record gets the text of the next page (its reader)",
    now="no text",
    why="records are joined by their ids and URLs, never by position",
)
def test_a_picture_does_not_get_the_text_of_the_next_page() -> None:
    found = [*pages(make_triple([Spec("pic", kind="image/png", text=None), Spec("b")]).read())]
    assert [page.text for page in found] == [None, "Title of b\nBody of b"]


@differs("an unknown WARC header ends the task (its parser)", now="kept", why="headers are added every year")
def test_unknown_headers_are_kept() -> None:
    page = next(pages(make_triple(TWO).read()))
    assert page.capture.headers.get("X-Unknown") == "1"
    assert page.typed_capture.protocols == ["h2", "tls/1.3", "h2"]


@differs(
    "The record start and end file delimiters are returned in getNextRecordStartPattern / getNextRecordEndPattern",
    now="a WARC record ends by its Content-Length and gzip member; patterns are for files of your own kinds",
    why="a page may contain the words with which the next record begins",
)
def test_a_page_may_contain_the_words_of_a_record() -> None:
    body = "<html><body>WARC/1.0\r\nWARC-Type: metadata\r\n\r\n"
    found = make_plain([Spec("a", body=body, text="t"), Spec("b")]).read()
    assert [page.target_uri for page in pages(found)] == ["https://example.org/a", "https://example.org/b"]


@differs("two languages in a header become none (its parser)", now="both")
def test_two_languages_are_two() -> None:
    page = next(pages(make_triple([Spec("a", languages=("eng", "fra"))]).read()))
    assert page.wet is not None
    assert page.wet.headers.get("WARC-Identified-Content-Language") == "eng,fra"


@works("Offset Management: an offset record that has the byte offsets into the file for each filetype")
def test_reading_goes_on_from_the_offsets_of_a_page() -> None:
    triple = make_triple([Spec(name) for name in "abcd"])
    found = [*pages(triple.read())]
    rest = triple.resumed(dict(found[1].resume))
    assert [page.target_uri for page in pages(rest)] == [page.target_uri for page in found[2:]]
    assert found[0].offsets[WARC] == (found[0].request.offset, found[0].metadata.offset + found[0].metadata.length)  # type: ignore[union-attr]  # it has both


# --- documents --------------------------------------------------------------------------------------------------------


@works("IndexRecord has the common fields from the Html that we'd need to build a simple indexer / domain ranker")
@differs(
    "description, icon, canonical and contentType of an IndexRecord are empty", now="filled", why="the data is there"
)
def test_an_index_record_has_the_fields_of_the_page() -> None:
    body = "<head><meta name=description content=D><link rel=canonical href=/c></head><body>x"
    (page,) = pages(read_pages(io.BytesIO(make_triple([Spec("a", body=body)]).warc)))
    record = make_index_record(page)
    assert (record.description, record.canonical) == ("D", "https://example.org/c")
    assert (record.content_type, record.document_id) == ("text/html", "https://example.org/a")


@differs(
    "We've added tests for the happy cases only. Negative cases and failure cases have not been added",
    now="damaged, cut and reordered files are tested",
)
@works("this composite doc contains these individual records and errors so that the caller may construct a custom doc")
def test_a_page_and_an_error_hold_the_records_they_were_made_of() -> None:
    triple = make_triple(TWO)
    page = next(pages(triple.read()))
    assert page.request is not None
    assert page.wat.capture is not None
    start, end = triple.places["a"][WET][0]
    damaged = triple.replacing(WET, triple.wet[: start + 10] + b"\0" * 20 + triple.wet[start + 30 :])
    error = next(item for item in damaged.read() if isinstance(item, ErrorDocument))
    assert error.page is not None
    assert (error.target_uri, error.page.title) == ("https://example.org/a", "Title of a")
    assert end > start


@works("We've also defined a WarcErrorDoc as a document for any errors encountered in parsing")
def test_an_error_has_the_bytes_where_it_is(tmp_path: Path) -> None:
    triple = make_triple(TWO)
    start, end = triple.places["b"][WARC][1]
    cut = triple.replacing(WARC, triple.warc[: start + 40] + b"\0" * 30 + triple.warc[start + 70 :])
    folder = create(tmp_path, [write_triple(tmp_path / "in", "f", cut)], source=tmp_path / "in")
    run(folder)
    errors = lines_of(folder.path / "errors")
    assert "WARC_ERROR" in {error["recordType"] for error in errors}
    places = [(flaw["start"], flaw["end"]) for error in errors for flaw in error["flaws"]]
    assert (start, end) in places


@works("reduce the web archives to JSON documents that could be used to create a database index")
def test_documents_are_rows_of_a_database(tmp_path: Path) -> None:
    lines = write_files(tmp_path / "in", files=2, count=5)
    folder = create(tmp_path, lines, source=tmp_path / "in", document={"kind": "index-record"})
    run(folder)
    found = duckdb.sql(f"select count(*), count(docText) from '{folder.path}/output/*.jsonl.gz'").fetchall()
    assert found == [(10, 10)]


# --- readers of your own ----------------------------------------------------------------------------------------------


def own(root: Path, reader: str, line: str, **files: str) -> list[dict[str, Any]]:
    (root / "in").mkdir()
    for name, text in files.items():
        (root / "in" / name).write_text(text)
    named = {"reader": f"{letsdata_readers.__file__}:{reader}"}
    folder = create(root / "d", [line], source=root / "in", document=named)
    run(folder)
    assert [view.state for view in views(folder)] == ["done"]
    return lines_of(folder.path / "output")


@works("SingleFileStateMachineParser: the state machine is encoded in the getNextExpectedRecordType function")
@works("parseDocument is given a byte array with start and end offsets into the record")
@works("SingleFileStateMachineReader: extracting individual records from a single file and combining them")
def test_a_reader_of_one_file_is_written_in_python(tmp_path: Path) -> None:
    made = own(tmp_path, "PairReader", "pairs", pairs="META a\nDATA 1\nMETA b\nDATA 2\n")
    assert made == [{"META": "a", "DATA": "1"}, {"META": "b", "DATA": "2"}]


@works("Creating CompositeDoc: The reader creates the composite doc from the extracted records")
@works("MultipleFileStateMachineReader: extracting records from multiple files and combining them into a composite doc")
@works("Accessing Parser Implementations: the reader has access to the file reader for each type")
def test_a_reader_of_several_files_is_written_in_python(tmp_path: Path) -> None:
    files = {"metadata": "a\nb\n", "data": "1\n2\n"}
    made = own(tmp_path, "TwoFilesReader", "METADATALOG : metadata | DATALOG : data", **files)
    assert made[0] == {"METADATALOG": "a", "DATALOG": "a"}  # the names are resolved by its own rule


@works("a SkipDoc is returned for a record that should be skipped (its interfaces)")
def test_a_skipped_record_is_counted(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "day").write_text('{"ts":1,"lvl":"WARN"}\n{"ts":2,"lvl":"ERROR"}\n')
    named = {"reader": f"{letsdata_readers.__file__}:ErrorLogParser"}
    report = run(create(tmp_path / "d", ["day"], source=tmp_path, document=named))
    assert (report.documents, report.left_out) == (1, {"skipped": 1})


@differs(
    "an implementation of Boyer Moore algo that is optimized for byte arrays",
    now="Python's `bytes.find`, which searches in two ways by itself",
    why="no code of ours to keep",
)
def test_a_pattern_is_found_across_pieces(tmp_path: Path) -> None:
    text = "-" * 3_000_000 + "META a\nDATA 1\n"
    assert own(tmp_path, "PairReader", "pairs", pairs=text) == [{"META": "a", "DATA": "1"}]


# --- manifest and description -----------------------------------------------------------------------------------------


@works("`Archive : file1.archive | Metadata : file1.metadata | Conversion : file1.conversion`")
@works("Each line in the manifest file becomes a #Let’s Data task")
def test_the_manifest_of_the_document_is_read() -> None:
    tasks = parse_manifest(MANIFEST.splitlines(), source="manifest")
    assert tasks == [{WARC: f"file{n}.archive", WAT: f"file{n}.metadata", WET: f"file{n}.conversion"} for n in (1, 2)]
    assert parse_line("WARC:a|WAT:b|WET:c") == parse_line(" archive: a |METADATA :b| Conversion : c ")


@works("Each archive has ~ 240K files")
def test_a_manifest_of_a_whole_crawl_is_read() -> None:
    lines = (f"Archive : {n}.warc | Metadata : {n}.wat | Conversion : {n}.wet" for n in range(80_000))
    assert len(parse_manifest(lines, source="m")) == 80_000


@works("generate_commoncrawl_manifest.py: generate the manifest file for the CommonCrawlReader usecase")
@works("generate_commoncrawl_warc_singlefilestatemachine_manifest.py")
def test_manifests_are_generated(tmp_path: Path) -> None:
    crawl = tmp_path / "crawl-data" / "CC-MAIN-2022-27"
    crawl.mkdir(parents=True)
    path = "crawl-data/CC-MAIN-2022-27/segments/1/warc/x.warc.gz"
    (crawl / "warc.paths.gz").write_bytes(f"{path}\n".encode())
    command = ("dataset", "manifest", "--crawl", "CC-MAIN-2022-27", "--base-url", tmp_path)
    (line,) = webmill(*command).lines
    wat, wet = (path.replace("/warc/", f"/{kind}/").replace(".warc.gz", f".warc.{kind}.gz") for kind in ("wat", "wet"))
    assert line.decode() == f"WARC:{path}|WAT:{wat}|WET:{wet}\n"
    assert webmill(*command, "--kind", "warc").out.decode() == f"{path}\n"


@works(
    "the S3 Bucket to read from; the mapping of interfaces to file types; the S3 Bucket to write the error records to"
)
@differs(
    "AWS Lambda compute details – these are the function concurrency, timeout, memory and log level",
    now="`compute.jobs`, `compute.timeout`, `compute.memory`; the log level is `-v` of a run",
)
@differs("build.sh: This builds this module using mvn.", now="nothing is built: `pip install webmill`")
@differs(
    "the JAR file that has the #Let’s Data interface implementations", now="not needed", why="its classes are ours"
)
@differs(
    "access grant iam role policy documents which can be used to run",
    now="your own credentials; docs/reference/dataset.md lists the permissions",
    why="nobody else runs it",
)
def test_the_configuration_is_mapped(tmp_path: Path) -> None:
    read = load_description(letsdata_descriptions.write(tmp_path, errorConnector={"bucketName": "my-errors"}))
    assert read.dataset.errors.to == "s3://my-errors/CommonCrawl1/errors?region=us-east-1"
    assert read.dataset.read.source == "s3://commoncrawl?region=us-east-1"
    assert (read.dataset.compute.jobs, read.dataset.compute.timeout, read.dataset.compute.memory) == (15, 900, 10240)
    assert {"readConnector.artifactFileS3Link", "accessGrantRoleArn", "computeEngine.logLevel"} <= set(read.not_needed)


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """dataset.json in the current folder, for files beside it; the second task has a file that is not there."""
    monkeypatch.chdir(tmp_path)
    for file, ending in (("archive", ".warc.gz"), ("metadata", ".warc.wat.gz"), ("conversion", ".warc.wet.gz")):
        write_files(tmp_path / "in", files=1, count=9)
        (tmp_path / "in" / f"f0{ending}").rename(tmp_path / "in" / f"file1.{file}")
    (tmp_path / "manifest.txt").write_text(MANIFEST)
    changes = {
        "readConnector": {"bucketName": "in/"},
        "writeConnector": {"connectorDestination": "S3"},
        "computeEngine": {"concurrency": 1, "memoryLimitInMegabytes": 0},
        "manifestFile": {"manifestFileS3Uri": "manifest.txt"},
    }
    return letsdata_descriptions.write(tmp_path, **changes)


def typed(line: str) -> Any:
    """Run a line of the document in a shell, as it stands there, with the name of the dataset; return its JSON."""
    ended = subprocess.run(
        line.replace("<datasetName>", "CommonCrawl1"), shell=True, capture_output=True, check=False, timeout=100
    )
    assert ended.returncode == 0, ended.stderr
    assert b"\n  " in ended.stdout  # pretty
    return json.loads(ended.stdout)


@works("`./letsdata datasets create --configFile dataset.json --prettyPrint`")
@works("`./letsdata datasets view --datasetName <datasetName> --prettyPrint`")
@works("`./letsdata tasks list --datasetName <datasetName> --prettyPrint`")
@works(
    "a task that can be tracked from creation to completion and has its own progress, errors and diagnostics tracing"
)
@works("Details about tasks, execution logs, errors and dataset metrics")
@pytest.mark.slow
def test_the_commands_of_the_document(described: Path) -> None:
    assert webmill("dropin", "install", ".").code == 0
    created = typed("./letsdata datasets create --configFile dataset.json --prettyPrint")
    assert (created["datasetName"], created["tasks"]["total"]) == ("CommonCrawl1", 2)
    state = ended()
    assert (state["datasetStatus"], state["tasks"]["done"], state["tasks"]["failed"]) == ("failed", 1, 1)
    assert state["readConnector"]["readerType"] == "Multiple File State Machine Reader"
    good, bad = typed("./letsdata tasks list --datasetName <datasetName> --prettyPrint")
    assert (good["taskStatus"], good["progress"], good["documents"]) == ("done", 1.0, 9)
    assert bad["files"]["WAT"] == "file2.metadata"
    assert "file2.archive" in bad["reason"]
    log = webmill("dataset", "tasks", "log", "CommonCrawl1", good["taskId"]).out
    assert b"part 0: 9 captures in " in log
    rows = lines_of(described.parent / "datasets" / "CommonCrawl1" / "output")
    assert decode(json.dumps(rows[0]).encode()) == make_index_record(first_page(described.parent / "in"))
    for file in (described.parent / "in").glob("file1.*"):
        shutil.copy(file, file.with_name(file.name.replace("file1", "file2")))
    subprocess.run("./letsdata tasks redrive --datasetName CommonCrawl1", shell=True, check=True, capture_output=True)
    assert ended()["tasks"]["done"] == 2


def ended() -> Any:
    """The dataset when its run in the background is over."""
    deadline = time.monotonic() + 100
    view = "./letsdata datasets view --datasetName <datasetName> --prettyPrint"
    while (state := typed(view))["datasetStatus"] in ("planned", "running", "stopped"):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    return state


def first_page(folder: Path) -> Any:
    files = [(folder / f"file1.{kind}").open("rb") for kind in ("archive", "metadata", "conversion")]
    try:
        return next(pages(read_pages(*files)))
    finally:
        for file in files:
            file.close()


@differs(
    "#Let’s Data can automatically manage the read and write resources; uses AWS Lambda to run the code",
    now="processes of your machine, or a Ray cluster: `compute.executor`",
    why="there is no service",
)
@works("tracking errors and building in fault tolerance and the necessary diagnostics")
def test_tasks_run_in_processes_that_may_die(tmp_path: Path) -> None:
    """What is left of a task that died is its receipts: the rest is made, with the same bytes."""
    lines = write_files(tmp_path / "in", files=1, count=20)
    folder = create(tmp_path, lines, source=tmp_path / "in", write={"pages_per_part": 4})
    run(folder)
    whole = snapshot(folder)
    for receipt in sorted(folder.path.glob("receipts/*/*.json"))[2:]:
        receipt.unlink()
    folder.queue.unlink()
    run(folder)
    assert snapshot(folder) == whole


@pytest.fixture(scope="module")
def streams() -> Iterator[Streams]:
    with streams_of_ministack() as streams:
        yield streams


@works("the Kinesis stream that we need to write to; the number of shards for the Kinesis stream")
@works("reads the common crawl dataset files from AWS S3, writes them to AWS Kinesis")
@differs(
    "The records can be accessed using the IAM role that is created by #Let's Data",
    now="any Kinesis client with your credentials; a dataset can read the stream, too",
)
@pytest.mark.server("ministack")
def test_documents_go_to_a_stream_and_are_read_from_it(tmp_path: Path, streams: Streams) -> None:
    lines = write_files(tmp_path / "in", files=1, count=6)
    (tmp_path / "manifest.txt").write_text("\n".join(lines))
    address = streams.address("kinesis", f"CommonCrawl{tmp_path.name[-2:].strip('_')}x")
    changes = {
        "readConnector": {"bucketName": streams.bucket(tmp_path / "in")},
        "writeConnector": {"streamName": address, "kinesisShardCount": 3},
        "manifestFile": {"manifestFileS3Uri": "manifest.txt"},
    }
    file = letsdata_descriptions.write(tmp_path, **changes)
    assert "created kinesis://" in webmill("dataset", "create", file, "--in", tmp_path).err
    assert webmill("-q", "dataset", "run", "CommonCrawl1", "--in", tmp_path, "--executor", "inline").code == 0
    name = re.findall(r"@([^?]+)", address)[0]
    assert len(streams.kinesis.list_shards(StreamName=name)["Shards"]) == 3
    sent = sorted(streams.records(address))
    assert all(isinstance(decode(line), IndexRecord) for line in sent)
    back = create(
        tmp_path / "back",
        [],
        source=tmp_path,
        read={"from": address, "empty_receives": 1},
        document={"kind": "index-record"},
    )
    assert run(back).documents == 6
    assert sorted(json.dumps(row) for row in lines_of(back.path / "output")) == sorted(
        json.dumps(json.loads(line)) for line in sent
    )
