"""What tantivy keeps of a document, under which fields, and how it cuts text into words.

title, text, url           words, lower-cased and without accents; runs of paired scripts are left out (`words`)
title_pairs, text_pairs    those runs, as overlapping pairs of characters
key, site, domain, language, facet, date, bucket, is_document    as they are
name                       key and mark, which can be read without what is stored
stored                     the document, for hits
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import msgspec
import tantivy

from webmill.formats.domains import registered_domain
from webmill.search.base import TEXT_INDEXED, TEXT_KEPT, Document
from webmill.search.fields import host_of, sites_of, words
from webmill.search.words import normalised, pairs, without_runs

BUCKETS = 64  # of keys, to go through them in parts

_decode = msgspec.msgpack.Decoder(Document).decode


def schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    for name in ("title", "text", "url"):
        builder.add_text_field(name, tokenizer_name="words", index_option="position")
    for name in ("title_pairs", "text_pairs"):
        builder.add_text_field(name, tokenizer_name="pairs", index_option="position")
    builder.add_text_field("key", tokenizer_name="raw", index_option="basic")
    builder.add_text_field("name", tokenizer_name="raw", index_option="basic", fast=True)
    builder.add_text_field("site", tokenizer_name="raw", index_option="basic")
    for name in ("domain", "language", "facet"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic", fast=True)
    builder.add_integer_field("date", indexed=True, fast=True)
    builder.add_integer_field("bucket", indexed=True)
    builder.add_boolean_field("is_document", indexed=True)
    builder.add_bytes_field("stored", stored=True)
    return builder.build()


def register_analyzers(index: tantivy.Index) -> None:
    index.register_tokenizer("words", words())
    index.register_tokenizer("pairs", tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build())


def entry(document: Document) -> tantivy.Document:
    name = host_of(document.url)
    title, text = normalised(document.title), normalised(document.text[:TEXT_INDEXED])
    fields: dict[str, Any] = {
        "key": [document.key],
        "name": [f"{document.key}\x00{document.mark}"],
        "title": [without_runs(title)],
        "text": [without_runs(text)],
        "url": [document.url],
        "site": sites_of(name),
        "domain": [registered_domain(name) or name] if name else [],
        "language": [document.language.lower()] if document.language else [],
        "facet": [f"{name}={value}" for name, value in document.facets.items()],
        "date": [document.date],
        "bucket": [crc32(document.key.encode()) % BUCKETS],
        "is_document": [True],
        "stored": [msgspec.msgpack.encode(msgspec.structs.replace(document, title=title, text=text[:TEXT_KEPT]))],
    }
    for name, value in (("title_pairs", title), ("text_pairs", text)):
        if not value.isascii() and (cut := pairs(value)):
            fields[name] = [cut]
    return tantivy.Document(**fields)


def stored(searcher: tantivy.Searcher, address: tantivy.DocAddress) -> Document:
    return _decode(searcher.doc(address)["stored"][0])
