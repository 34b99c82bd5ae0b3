"""Static vectors: one for each token; a text has the mean of those of its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from webmill.errors import Misconfigured
from webmill.search.meaning.model import UNKNOWN, ModelFolder, Vectors, is_known, normalized, some_at_once
from webmill.search.meaning.safetensors import read_tensors

AT_ONCE = 256  # texts
MATRICES = ("embeddings", "embedding.weight")  # as model2vec and sentence-transformers call them
WEIGHTS, MAPPING = "weights", "mapping"  # of model2vec: of tokens, and of tokens to rows


class StaticModel:
    def __init__(self, folder: ModelFolder) -> None:
        tensors = read_tensors(folder.weights)
        found = [tensors[name] for name in MATRICES if name in tensors and tensors[name].ndim == 2]
        if not found or found[0].dtype.kind != "f" or not found[0].size:
            raise Misconfigured(f"{folder.weights} has no matrix of vectors named {' or '.join(MATRICES)}")
        self._matrix = found[0]
        self._tokenizer = folder.open_tokenizer()
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        tokens = self._tokenizer.get_vocab_size()
        rows: Any = tensors.get(MAPPING, numpy.arange(len(self._matrix)))
        self._rows = rows[:tokens].astype(numpy.int64)
        self._weights = tensors.get(WEIGHTS, numpy.ones(len(self._rows)))[: len(self._rows)].astype(numpy.float32)
        is_whole = self._rows.ndim == 1 and 0 < len(self._rows) == len(self._weights)
        if not is_whole or self._rows.min() < 0 or self._rows.max() >= len(self._matrix):
            raise Misconfigured(f"{folder.weights} has not a vector for each token of its tokenizer")
        self._unknown = self._find_unknown()
        self.fingerprint = folder.fingerprint()
        self.dimensions = int(self._matrix.shape[1])
        self._prompts = folder.query_prompt, folder.document_prompt

    def _find_unknown(self) -> int:
        """Return the token of what the tokenizer does not know; -1 if it has none. It says nothing of a meaning."""
        for name in UNKNOWN:
            if (found := self._tokenizer.token_to_id(name)) is not None:
                return int(found)
        return -1

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self._embed([self._prompts[0] + text for text in texts])

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return self._embed([self._prompts[1] + text for text in texts])

    def knows(self, text: str) -> bool:
        return is_known(self._tokenizer, text)

    def _embed(self, texts: Sequence[str]) -> Vectors:
        result = numpy.zeros((len(texts), self.dimensions), numpy.float32)
        for first, some in zip(range(0, len(texts), AT_ONCE), some_at_once(texts, AT_ONCE), strict=True):
            for number, encoded in enumerate(self._tokenizer.encode_batch_fast(some, add_special_tokens=False), first):
                ids = numpy.array(encoded.ids, numpy.int64)
                ids = ids[(ids != self._unknown) & (ids < len(self._rows))]
                if len(ids):
                    result[number] = self._weights[ids] @ self._matrix[self._rows[ids]].astype(numpy.float32)
        return normalized(result)
