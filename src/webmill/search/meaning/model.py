"""A sentence model, which turns texts into vectors that are close when the texts mean the same: a folder that the user
gives. Nothing is downloaded, and nothing in the folder is run as code.

    tokenizer.json and model.safetensors with one matrix, a row for each token    static vectors, as model2vec's
    tokenizer.json and model.onnx, or onnx/model.onnx                             an encoder, by onnxruntime

`1_Pooling/config.json` says how the vectors of an encoder's tokens become one (the mean, without it), and
`config_sentence_transformers.json` what is written before queries and documents. Other files are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import msgspec
import numpy

from webmill.errors import Misconfigured
from webmill.infra.files import os_errors
from webmill.search.segmentation import split_runs, split_words

Vectors: TypeAlias = numpy.ndarray[Any, numpy.dtype[numpy.float32]]

STATIC, ENCODERS = "model.safetensors", ("model.onnx", "onnx/model.onnx")
TOKENIZER = "tokenizer.json"
POOLING, PROMPTS = "1_Pooling/config.json", "config_sentence_transformers.json"
LONGEST_CONFIG = 1 << 20  # bytes
UNKNOWN = ("[UNK]", "<unk>")
UNKNOWN_COST = 3  # tokens
TOKENS_A_WORD = 2.7  # at most, of a language that is known: English has 1.2 to 1.5, German and Spanish about 2
TOKENS_A_CHARACTER = 0.9  # the same where words have no spaces between them
SAMPLES, SAMPLE = 64, 16 << 10  # parts of a file that tell models apart


class SentenceModel(Protocol):
    """`embed_queries` and `embed_documents` return a row of length 1 for each text; of a text without a known token, of
    length 0."""

    fingerprint: str  # of what decides which vectors a text has
    dimensions: int

    def embed_queries(self, texts: Sequence[str]) -> Vectors: ...

    def embed_documents(self, texts: Sequence[str]) -> Vectors: ...

    def knows(self, text: str) -> bool:
        """Return whether the model has words of this language, and not its letters alone."""
        ...


class _Pooling(msgspec.Struct):
    pooling_mode_cls_token: bool = False
    pooling_mode_mean_tokens: bool = True


class _Prompts(msgspec.Struct):
    prompts: dict[str, str] = {}


class ModelFolder:
    """The files of a model. `Misconfigured` names what is missing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_dir():
            raise Misconfigured(f"{path} is not a folder with a sentence model: {TOKENIZER} and {STATIC} or model.onnx")
        weights = next((name for name in (*ENCODERS, STATIC) if (path / name).is_file()), None)
        missing = TOKENIZER if not (path / TOKENIZER).is_file() else None if weights else f"{STATIC} or model.onnx"
        if missing or weights is None:
            raise Misconfigured(f"{path} is no sentence model: it has no {missing}")
        self.weights = path / weights
        self.is_static = weights == STATIC
        self.takes_mean = not self._read(POOLING, _Pooling).pooling_mode_cls_token
        prompts = self._read(PROMPTS, _Prompts).prompts
        self.query_prompt = prompts.get("query", "")
        self.document_prompt = prompts.get("document", prompts.get("passage", ""))

    def _read(self, name: str, kind: type[Any]) -> Any:
        path = self.path / name
        try:
            with path.open("rb") as file:
                return msgspec.json.decode(file.read(LONGEST_CONFIG), type=kind)
        except FileNotFoundError:
            return kind()
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Misconfigured(f"{path} cannot be read: {error}") from None

    def fingerprint(self) -> str:
        """Return a hash of the sizes of the files and of parts of them: models of the same size differ everywhere."""
        found = blake2b(digest_size=8)
        for path in (self.path / TOKENIZER, self.weights):
            with os_errors(str(path)):
                size = path.stat().st_size
                found.update(f"{path.name} {size}\n".encode())
                with path.open("rb") as file:
                    for part in range(SAMPLES):
                        file.seek(part * max(0, size - SAMPLE) // (SAMPLES - 1))
                        found.update(file.read(SAMPLE))
        found.update(repr((self.takes_mean, self.query_prompt, self.document_prompt)).encode())
        return found.hexdigest()

    def open_tokenizer(self) -> Any:
        try:
            from tokenizers import Tokenizer
        except ImportError as missing:
            raise Misconfigured("search by meaning needs an extra: pip install 'webmill[meaning]'") from missing
        try:
            return Tokenizer.from_file(str(self.path / TOKENIZER))
        except Exception as error:  # the library raises no narrower one
            raise Misconfigured(f"{self.path / TOKENIZER} cannot be read: {error}") from error


def open_model(path: Path, *, threads: int = 1) -> SentenceModel:
    """Open the model of a folder; `threads` for encoders."""
    folder = ModelFolder(path)
    if folder.is_static:
        from webmill.search.meaning.static_model import StaticModel

        return StaticModel(folder)
    from webmill.search.meaning.encoder_model import EncoderModel

    return EncoderModel(folder, threads=threads)


def normalized(vectors: Vectors) -> Vectors:
    """Return the rows with length 1; a row of zeros as it is."""
    lengths = numpy.linalg.norm(vectors, axis=1, keepdims=True)
    result: Vectors = (vectors / numpy.where(lengths > 0, lengths, 1)).astype(numpy.float32, copy=False)
    return result


def is_known(tokenizer: Any, text: str) -> bool:
    """Tell whether a tokenizer has tokens for the words of a text: it cuts words of a language that it was not made
    for into letters, and the vectors of letters mean nothing."""
    runs = split_runs(text)
    characters = sum(len(piece) for is_run, piece in runs if is_run)
    words = sum(len(split_words(piece)) for is_run, piece in runs if not is_run)
    tokens = tokenizer.encode(text, add_special_tokens=False).tokens
    unknown = sum(token in UNKNOWN for token in tokens)
    return len(tokens) + UNKNOWN_COST * unknown <= TOKENS_A_WORD * words + TOKENS_A_CHARACTER * characters


def some_at_once(texts: Sequence[str], count: int) -> Iterator[Sequence[str]]:
    for at in range(0, len(texts), count):
        yield texts[at : at + count]
