"""Sentence models that tests make: real files in the formats of real models, whose few words mean what we say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

# Words of a line mean the same; each line something else.
MEANINGS = (
    "cat cats kitten feline purr",
    "river flood water overflow rain",
    "car automobile vehicle engine motor",
    "money market stock revenue bank",
    "doctor physician medicine illness hospital",
    "고양이 猫",
)
WORDS = ["[UNK]", *(word for line in MEANINGS for word in line.split())]


def write_static_model(folder: Path, *, dimensions: int = 16, seed: int = 1) -> Path:
    """Write tokenizer.json and model.safetensors as model2vec does."""
    _write_tokenizer(folder)
    matrix = _matrix(dimensions, seed).astype("<f2")
    header = {"embeddings": {"dtype": "F16", "shape": matrix.shape, "data_offsets": [0, matrix.nbytes]}}
    head = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + matrix.tobytes())
    return folder


def write_encoder(folder: Path, *, dimensions: int = 16, seed: int = 1) -> Path:
    """Write an ONNX graph that looks up each token: what it returns has to be pooled."""
    _write_tokenizer(folder)
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["n", "m"]) for name in ENCODER_INPUTS]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["n", "m", dimensions])
    nodes = [
        helper.make_node("Gather", ["vectors", "input_ids"], ["found"]),
        helper.make_node("Unsqueeze", ["attention_mask", "last"], ["column"]),
        helper.make_node("Cast", ["column"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["found", "mask"], ["shifted"]),
        helper.make_node("Sub", ["shifted", "mask"], ["last_hidden_state"]),
    ]
    constants = [
        numpy_helper.from_array(_matrix(dimensions, seed).astype("<f4"), "vectors"),
        numpy_helper.from_array(numpy.array([2], "<i8"), "last"),
    ]
    graph = helper.make_graph(nodes, "lookup", inputs, [output], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (folder / "onnx").mkdir()
    onnx.save(made, folder / "onnx" / "model.onnx")
    return folder


ENCODER_INPUTS = ("input_ids", "attention_mask")


def _write_tokenizer(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    whole = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {word: number for number, word in enumerate(WORDS)},
            "unk_token": "[UNK]",
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(whole))


def _matrix(dimensions: int, seed: int) -> numpy.ndarray:
    dice = numpy.random.default_rng(seed)
    rows: list[Sequence[float]] = [numpy.zeros(dimensions)]
    for line in MEANINGS:
        one = dice.normal(size=dimensions)
        rows += [one + 0.1 * dice.normal(size=dimensions) for _ in line.split()]
    return numpy.array(rows)
