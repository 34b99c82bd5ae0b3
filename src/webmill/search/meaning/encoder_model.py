"""Sentence encoders in ONNX, by onnxruntime on the processor. Of each text the first tokens count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from webmill.errors import Misconfigured
from webmill.search.meaning.model import ModelFolder, Vectors, is_known, normalized, some_at_once

AT_ONCE = 16  # texts
LONGEST = 512  # tokens of a text; fewer if the tokenizer says so
_WHOLE = ("sentence_embedding", "sentence_embeddings")  # outputs that are pooled already
_INPUTS = {"input_ids", "attention_mask", "token_type_ids"}


class EncoderModel:
    def __init__(self, folder: ModelFolder, *, threads: int) -> None:
        self._path, self._tokenizer = folder.weights, folder.open_tokenizer()
        longest = min(LONGEST, (self._tokenizer.truncation or {}).get("max_length", LONGEST))
        self._tokenizer.enable_truncation(longest)
        self._tokenizer.enable_padding(**{k: v for k, v in (self._tokenizer.padding or {}).items() if k in _PADDING})
        self._words = folder.open_tokenizer()  # without padding
        self._words.no_padding()
        self._session = _open_session(folder, threads)
        self._inputs = [each.name for each in self._session.get_inputs()]
        outputs = [each.name for each in self._session.get_outputs()]
        if not {"input_ids"} <= set(self._inputs) <= _INPUTS:
            raise Misconfigured(f"{folder.weights} is no sentence encoder: its inputs are {', '.join(self._inputs)}")
        self._output = next((name for name in _WHOLE if name in outputs), outputs[0])
        self._takes_mean = folder.takes_mean
        self.fingerprint = folder.fingerprint()
        self._prompts = folder.query_prompt, folder.document_prompt
        self.dimensions = int(self._run(["a"]).shape[1])

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self._embed([self._prompts[0] + text for text in texts])

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return self._embed([self._prompts[1] + text for text in texts])

    def knows(self, text: str) -> bool:
        return is_known(self._words, text)

    def _embed(self, texts: Sequence[str]) -> Vectors:
        """Embed texts of about the same length together: all are padded to the longest."""
        result = numpy.zeros((len(texts), self.dimensions), numpy.float32)
        order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
        for some in some_at_once([texts[number] for number in order], AT_ONCE):
            numbers, order = order[: len(some)], order[len(some) :]
            result[numbers] = self._run(some)
        return normalized(result)

    def _run(self, texts: Sequence[str]) -> Vectors:
        encoded = self._tokenizer.encode_batch_fast(list(texts))
        masks = numpy.array([each.attention_mask for each in encoded], numpy.int64)
        given = {
            "input_ids": numpy.array([each.ids for each in encoded], numpy.int64),
            "attention_mask": masks,
            "token_type_ids": numpy.zeros_like(masks),
        }
        try:
            [found] = self._session.run([self._output], {name: given[name] for name in self._inputs})
        except Exception as error:  # the library raises no narrower one
            raise Misconfigured(f"{self._path} cannot be run: {error}") from error
        if found.ndim == 2:
            return found  # type: ignore[no-any-return]
        if not self._takes_mean:
            return found[:, 0]  # type: ignore[no-any-return]
        weights = masks[:, :, None].astype(numpy.float32)
        return (found * weights).sum(axis=1) / numpy.maximum(weights.sum(axis=1), 1)  # type: ignore[no-any-return]


_PADDING = {"direction", "pad_id", "pad_type_id", "pad_token"}


def _open_session(folder: ModelFolder, threads: int) -> Any:
    try:
        import onnxruntime
    except ImportError as missing:
        raise Misconfigured("sentence encoders need an extra: pip install 'webmill[meaning]'") from missing
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4  # what it says is in the error
    try:
        return onnxruntime.InferenceSession(str(folder.weights), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the library raises no narrower one
        raise Misconfigured(f"{folder.weights} cannot be read: {error}") from error
