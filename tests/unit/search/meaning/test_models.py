"""Model folders are data: what is not a model is refused with what is missing, and what is one gives unit vectors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy
import pytest

from tests.sentence_models import WORDS, write_encoder, write_static_model
from webmill.errors import Misconfigured
from webmill.search.meaning.model import open_model

WRITERS = [write_static_model, write_encoder]


@pytest.mark.parametrize("write", WRITERS)
def test_texts_with_one_meaning_are_near(write, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    model = open_model(write(tmp_path / "model"))
    vectors = model.embed_documents(["A cat.", "two kittens, one kitten", "The river!", ""])
    assert vectors.shape == (4, 16) == (4, model.dimensions)
    assert numpy.linalg.norm(vectors[:3], axis=1) == pytest.approx([1, 1, 1], abs=1e-5)
    assert vectors[0] @ vectors[1] > 0.8 > vectors[0] @ vectors[2] + 0.2


@pytest.mark.parametrize("write", WRITERS)
def test_a_text_has_the_same_vector_whatever_stands_beside_it(write, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    model = open_model(write(tmp_path / "model"))
    texts = [" ".join(WORDS[1 : 2 + number % 20]) for number in range(300)]
    together = model.embed_documents(texts)
    for number in (0, 19, 255, 256, 299):
        assert numpy.allclose(together[number], model.embed_documents([texts[number]])[0], atol=1e-5)


def test_the_fingerprint_is_of_what_decides_the_vectors(tmp_path: Path) -> None:
    one = open_model(write_static_model(tmp_path / "a")).fingerprint
    assert one == open_model(write_static_model(tmp_path / "b")).fingerprint
    assert one != open_model(write_static_model(tmp_path / "c", seed=2)).fingerprint
    (tmp_path / "b" / "config_sentence_transformers.json").write_text('{"prompts": {"query": "q: "}}')
    assert one != open_model(tmp_path / "b").fingerprint


def test_weights_and_mapping_of_model2vec_count(tmp_path: Path) -> None:
    folder = write_static_model(tmp_path / "model")
    matrix = numpy.eye(2, dtype="<f4")
    mapping = numpy.array([number % 2 for number in range(len(WORDS))], "<i8")
    weights = numpy.ones(len(WORDS), "<f4")
    weights[1] = 0
    parts, header, at = b"", {}, 0
    for name, kind, array in (("embeddings", "F32", matrix), ("mapping", "I64", mapping), ("weights", "F32", weights)):
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [at, at + array.nbytes]}
        parts, at = parts + array.tobytes(), at + array.nbytes
    head = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + parts)
    vectors = open_model(folder).embed_documents([WORDS[1], WORDS[2], WORDS[3]])
    assert vectors.tolist() == [[0, 0], [1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("tokenizer.json", b"{}", "cannot be read"),
        ("model.safetensors", b"", "cannot"),
        ("model.safetensors", b"\xff" * 64, "header"),
        ("model.safetensors", (2).to_bytes(8, "little") + b"{}", "no matrix"),
        ("model.safetensors", (60).to_bytes(8, "little") + b"[" * 60, "safetensors"),
        ("config_sentence_transformers.json", b"[", "cannot be read"),
    ],
)
def test_what_is_no_model_is_refused(name: str, data: bytes, says: str, tmp_path: Path) -> None:
    folder = write_static_model(tmp_path / "model")
    (folder / name).write_bytes(data)
    with pytest.raises(Misconfigured, match=says):
        open_model(folder)


def test_tensors_outside_of_the_file_are_refused(tmp_path: Path) -> None:
    folder = write_static_model(tmp_path / "model")
    for shape, offsets in (
        ([4, 4], [0, 1 << 40]),
        ([4, 4], [64, 0]),
        ([1 << 40, 1 << 40], [0, 8]),
        ([-4, -4], [0, 64]),
    ):
        head = json.dumps({"embeddings": {"dtype": "F32", "shape": shape, "data_offsets": offsets}}).encode()
        (folder / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + b"\0" * 64)
        with pytest.raises(Misconfigured, match="outside"):
            open_model(folder)


def test_a_folder_without_its_files_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="is not a folder"):
        open_model(tmp_path / "none")
    folder = write_static_model(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    with pytest.raises(Misconfigured, match=r"no model\.safetensors or model\.onnx"):
        open_model(folder)


def test_an_encoder_that_is_none_is_refused(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "model")
    (folder / "onnx" / "model.onnx").write_bytes(b"nothing of the kind")
    with pytest.raises(Misconfigured, match="cannot be read"):
        open_model(folder)
