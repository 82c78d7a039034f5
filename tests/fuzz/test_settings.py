"""Every settings class and hostile settings files: settings that hold, or one sentence."""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deqcli import study
from deqcli.errors import DeqcliError, OutsidePapersRangeWarning
from deqcli.settings import Option, Settings, options
from deqcli.settings_files import read_document

from .hostile import (
    ACTIVATIONS,
    FLOATS,
    INTEGERS,
    TEXTS,
    Random,
    anything,
    batches,
    generator,
    no_sentence,
    not_finite,
    pick,
    seen,
)

#: Texts that are next to a settings file.
FILES = (
    b'act = "relu"\nsigma-a2 = 0.2\n', b'study = "match"\ntau0 = 1\n[figure]\ntitle = "x"\n',
    b'{"study": "match", "settings": {"act": "relu", "tau0": 1.0}}', b"null", b"[1, 2]",
    b'"abc"', b'{"options": [1, 2]}', b'{"settings": [1, 2]}', b'{"settings": null}', b"{}", b"",
    b"3", b"NaN", b'{"study": 3}', b'{"settings": {"tau0": NaN}}', b'act = "\xe9"', b"\x00\x01",
    b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b"a = " + b"[" * 5000, b"a.b.c = 1",
    b"figure = 3", b"study = []", b"n = 1979-05-27", b"n = 1e400", b"n = nan",
    b"n = " + b"9" * 5000, b'{"settings": {"n": 1e999}}', b"n = 1\nn = 2", b"n-a = 1\nn_a = 2",
)  # fmt: skip


def value(rng: Random, option: Option) -> Any:
    """Return something for an option: often of its type, sometimes of none."""
    roll = rng.random()
    if roll < 0.2:
        return anything(rng)
    if option.choices and roll < 0.8:
        return pick(rng, option.choices)
    if option.name == "act":
        return pick(rng, ACTIVATIONS)
    kinds = {int: INTEGERS, float: FLOATS, bool: (True, False, "true", 1)}
    entry = pick(rng, kinds.get(option.kind, TEXTS))
    return [entry, pick(rng, INTEGERS)] if option.many and roll < 0.5 else entry


def a_mapping(rng: Random) -> tuple[str, Callable[[], list[str]]]:
    cls: type[Settings] = study.get(pick(rng, study.names())).settings
    known = options(cls)
    chosen = {known[i] for i in rng.integers(len(known), size=int(rng.integers(1, 5)))}
    ordered = sorted(chosen, key=lambda option: option.name)
    values = {pick(rng, (option.name, option.key)): value(rng, option) for option in ordered}
    if rng.random() < 0.05:
        values[pick(rng, TEXTS)] = 1

    def load() -> list[str]:
        settings = cls.load(values)
        wrong = list(not_finite(settings, "settings"))
        identity = settings.identity()
        if json.loads(json.dumps(identity, allow_nan=False)) != identity:
            wrong.append(f"{identity} is not the same after JSON")
        if cls.load(identity).identity() != identity:
            wrong.append(f"{identity} is another run when it is loaded")
        settings.arguments()
        return wrong

    return f"{cls.__name__}.load({seen(values)})", load


def a_file(rng: Random, folder: Path) -> tuple[str, Callable[[], list[str]]]:
    content = bytearray(pick(rng, FILES))
    if content and rng.random() < 0.7:
        for _ in range(int(rng.integers(1, 4))):
            place = int(rng.integers(len(content)))
            content[place : place + int(rng.integers(2))] = rng.bytes(int(rng.integers(3)))
            content = content or bytearray(b" ")
    path = folder / f"settings.{pick(rng, ('toml', 'json', 'txt'))}"
    path.write_bytes(content)

    def load() -> list[str]:
        document = read_document(path)
        if document.study in study.names():
            study.get(document.study).settings.load(document.values)
        return []

    return f"read_document({path.name} of {bytes(content[:80])!r})", load


def attempt(case: int, folder: Path = Path()) -> tuple[str, list[str]]:
    """Load one mapping or file; say how that ended and what is wrong with it."""
    rng, wrong, outcome = generator("settings", case), [], "loaded"
    described, load = a_file(rng, folder) if case % 3 == 0 else a_mapping(rng)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OutsidePapersRangeWarning)
            wrong += load()
    except DeqcliError as error:
        outcome = "refused"
        wrong += no_sentence(error)
    except Exception as error:
        wrong.append(f"{type(error).__name__}: {error}")
    faults = [f"case {case}: {described}\n    {text}" for text in wrong]
    return "faulty" if faults else outcome, faults


@pytest.mark.parametrize("cases", batches(), ids=lambda cases: f"from{cases[0]}")
def test_settings(cases, tmp_path, assert_clean):
    assert_clean("settings", cases, functools.partial(attempt, folder=tmp_path))
