"""The fields of a document in tantivy, and how text is split into words.

title, text, url…          searched columns: words in lower case, without accents; runs of bigram scripts are left out
title_pairs, text_pairs…   those runs, as overlapping bigrams
date…                      columns that are times, in seconds since 1970
key, content, site, domain, language, facet, bucket, is_document    as they are
name                       key and revision, which can be read without the stored document
stored                     the document, for hits
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import msgspec
import tantivy

from webmill.search.base import TEXT_KEPT, IndexedDocument
from webmill.search.fields import (
    SEARCHED_COLUMNS,
    TEXT_COLUMNS,
    content_of,
    domains_of,
    facets_of,
    host_of,
    sites_of,
    texts_of,
    times_of,
    word_analyzer,
)
from webmill.search.query import TIME_COLUMNS
from webmill.search.segmentation import bigrams, mask_runs

BUCKETS = 64  # of keys, to list them in parts

_decode = msgspec.msgpack.Decoder(IndexedDocument).decode


def build_schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    for name in SEARCHED_COLUMNS:
        builder.add_text_field(name, tokenizer_name="words", index_option="position")
    for name in TEXT_COLUMNS:
        builder.add_text_field(f"{name}_pairs", tokenizer_name="pairs", index_option="position")
    builder.add_text_field("key", tokenizer_name="raw", index_option="basic")
    builder.add_text_field("name", tokenizer_name="raw", index_option="basic", fast=True)
    builder.add_text_field("content", tokenizer_name="raw", index_option="basic")
    builder.add_text_field("site", tokenizer_name="raw", index_option="basic")
    for name in ("domain", "language", "facet"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic", fast=True)
    for name in TIME_COLUMNS:
        builder.add_integer_field(name, indexed=True, fast=True)
    builder.add_integer_field("bucket", indexed=True)
    builder.add_boolean_field("is_document", indexed=True)
    builder.add_bytes_field("stored", stored=True)
    return builder.build()


def register_analyzers(index: tantivy.Index) -> None:
    index.register_tokenizer("words", word_analyzer())
    index.register_tokenizer("pairs", tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build())


def to_entry(document: IndexedDocument) -> tantivy.Document:
    host, texts = host_of(document.url), texts_of(document)
    kept = {**texts, "text": texts["text"][:TEXT_KEPT]}
    fields: dict[str, Any] = {
        "key": [document.key],
        "name": [f"{document.key}\x00{document.revision}"],
        **{name: [mask_runs(text)] if name in TEXT_COLUMNS else [text] for name, text in texts.items()},
        "content": [content_of(document.hash)],
        "site": sites_of(host),
        "domain": domains_of(host),
        "language": [document.language.lower()] if document.language else [],
        "facet": facets_of(document),
        **{name: [value] for name, value in times_of(document).items()},
        "bucket": [crc32(document.key.encode()) % BUCKETS],
        "is_document": [True],
        "stored": [msgspec.msgpack.encode(msgspec.structs.replace(document, **kept))],
    }
    for name in TEXT_COLUMNS:
        if not texts[name].isascii() and (pairs := bigrams(texts[name])):
            fields[f"{name}_pairs"] = [pairs]
    return tantivy.Document(**fields)


def read_stored(searcher: tantivy.Searcher, address: tantivy.DocAddress) -> IndexedDocument:
    return _decode(searcher.doc(address)["stored"][0])
