"""`inspect`: a model from its files, looked at, into inspect.json and inspect.html."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from posenc.atomic_files import write_json
from posenc.errors import UnsupportedError
from posenc.inspection.layer import layer_data
from posenc.inspection.page import write_page
from posenc.inspection.sentences import sentences
from posenc.inspection.shifts import shifted
from posenc.inspection.table import table_data
from posenc.inspection.texts import make_texts
from posenc.inspection.words import TEXTS
from posenc.models.attach import attach
from posenc.models.attach.entry import entry
from posenc.models.collect import LayerCall, collect
from posenc.models.loading import Loaded, load_model
from posenc.models.read import read
from posenc.words import Language, Words

VERSION = 1


@dataclass(frozen=True)
class Outcome:
    data: dict[str, Any]
    page: Path


def inspect(
    source: Path,
    out: Path,
    command: str,
    *,
    text: Path | None = None,
    tokens: int | None = None,
    layers: Collection[int] | None = None,
    tell: Callable[[int], None] | None = None,
    language: Language = "en",
) -> Outcome:
    """Look at the model in a folder or GGUF file, and write inspect.json and inspect.html.

    `tell` hears of each layer as it is done; `language` is that of the page. Raises ConfigError for
    what is no model, SettingError for a text or a length that does not do, UnknownNameError for a
    layer that is not there, and OSError where nothing can be written.
    """
    # The page comes last, and what it is drawn with is missed at once.
    import matplotlib  # noqa: F401

    loaded = load_model(source)
    data = {"version": VERSION, "command": command, "source": str(source)}
    data |= inspect_model(loaded, text=text, tokens=tokens, layers=layers, tell=tell)
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "inspect.json", data)
    return Outcome(data, write_page(out, data, language))


def inspect_model(
    loaded: Loaded,
    *,
    text: Path | None = None,
    tokens: int | None = None,
    layers: Collection[int] | None = None,
    tell: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """What inspect.json holds of a model; see `inspect`."""
    model = loaded.model
    words = getattr(model.config.get_text_config(), "vocab_size", None)
    if words is None or model.config.is_encoder_decoder:
        raise UnsupportedError(
            f"inspect: {type(model).__name__} does not read one text; give an encoder or a decoder "
            "of text"
        )
    spec = read(model.config.to_dict())
    longest = spec.main.trained_length
    texts = make_texts(loaded.tokenizer, text, tokens, longest, words)
    notes: list[str] = []
    table, found = None, []
    # One that was saved with an encoding of posenc has it in place of its own.
    record = getattr(model.config, "posenc", None)

    def look(call: LayerCall) -> None:
        found.append(layer_data(call, texts.exchanged))
        if tell:
            tell(call.layer)

    try:
        place = entry(model)[1].table
        if record is None and place is not None and isinstance(place.module, nn.Embedding):
            deviation = getattr(model.config, "initializer_range", None)
            table = table_data(place.module.weight, deviation)
        collect(model, texts.ids, look, layers)
    except UnsupportedError as error:
        notes.append(f"Layers were not looked at: {error}")
    if record is not None:
        model.config.posenc = record
        attach(model)
    shifts = shifted(model, texts.ids[:1], spec.main.first_position, longest)
    if shifts.why_not:
        notes.append(f"Shifts were not measured: {shifts.why_not}.")
    data = {
        "model": {
            "type": spec.model_type,
            "class": type(model).__name__,
            "layers": len(spec.layers),
            "embeddings": [x.name for x in spec.main.embeddings],
            "trained_length": longest,
        },
        "text": {
            "source": texts.source,
            "tokens": texts.ids.shape[1],
            "texts": texts.ids.shape[0],
        },
        "table": table,
        "layers": found,
        "shifts": {"compared": shifts.compared, "changes": shifts.changes},
        "notes": notes,
    }
    return {"summary": sentences(data, Words("en", TEXTS))} | data
