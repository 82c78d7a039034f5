"""Every command with hostile options: exit 0, 2 or 3 with one sentence, and a finite table."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from deqcli import false_claims, misprints, study
from deqcli.cli import bench, run
from deqcli.runs import files, tables
from deqcli.settings import Option, Settings, options

from .hostile import (
    ACTIVATIONS,
    FLOATS,
    INTEGERS,
    TEXTS,
    Random,
    batches,
    generator,
    pick,
)
from .tables import unexplained

#: The smallest runs that a study has.
TINY = {
    "spectrum": "--n 6 --p 12 --realizations 2 --width 9",
    "error-vs-n": "--n 8,9 --ratio 2 --trials 1 --act tanh --realizations 2 --width 9",
    "visible": "--n 16 --ratio 1 --mean-norm 2 --trials 1 --act tanh",
    "predict": "--n 16 --p 20 --values 8 --trials 1 --test-size 8 --nets deq",
    "match": "--n 6 --p 12",
    "accuracy": "--data gmm --p 12 --train-size 12 --test-size 8 --batch 4 "
    "--widths 5 --epochs 1 --trials 1",
    "flow": "--n 6 --p 12 --widths 6 --steps 2 --test-size 4",
    "errata": "--n 16,17 --trials 1",
}
#: How a study is run.
RUNNING = {
    "--format": ("png", "svg", "bmp", ""),
    "--name": ("x", "../x", "", "."),
    "--config": ("good.toml", "bad.toml", "none.toml", "bad.json"),
    "--jobs": ("0", "-1", "x", "1"),
    "--out": ("good.toml", "other"),
}
OTHER = ("scalars", "list", "report", "reproduce", "data", "info", "bench")
BENCHES: dict[str, tuple[type[Settings], str]] = {
    "kernel": (bench.KernelBench, "--n 6 --p 9 --act relu --repeats 1"),
    "monte-carlo": (bench.MonteCarloBench, "--n 4 --p 5 --width 9 --act relu --repeats 1"),
    "training": (bench.TrainingBench, "--widths 5 --act relu --batch 4 --repeats 1"),
    "match": (bench.MatchBench, "--act relu"),
}
#: Refused at once wherever it stands for a number of things to do or to keep.
HUGE = 10**12
#: Errors of click have three lines; the sentence is the last.
USAGE = re.compile(r"\AUsage: .*\nTry .*\n\nError: .+\n\Z", re.DOTALL)


def text(rng: Random, option: Option) -> str:
    roll = rng.random()
    if roll < 0.12 or (option.kind is str and roll < 0.3):
        return str(pick(rng, TEXTS[:-1]))
    if option.name == "act":
        return str(pick(rng, ACTIVATIONS[: 12 if roll < 0.6 else None]))
    if option.choices:
        return str(pick(rng, option.choices))
    if option.name == "data":
        return str(pick(rng, ("gmm", "sphere", "mnist", "no.csv", "x.npz", "data.csv", "bad.npz")))
    if option.name == "covariance":
        return str(pick(rng, ("identity", "toeplitz:0.5", "toeplitz:1", "toeplitz:nan", "x:1")))
    if option.kind is int and roll < 0.3:
        return str(HUGE)
    entry = pick(rng, {int: INTEGERS, float: FLOATS}.get(option.kind, TEXTS[:-1]))
    return str(entry)


def some_options(rng: Random, settings: type[Settings], most: int) -> list[str]:
    """Return some of the options of a settings class, each with something for a value."""
    words: list[str] = []
    known = options(settings)
    for place in rng.integers(len(known), size=int(rng.integers(0, most + 1))):
        option = known[place]
        words += [option.flag] if option.kind is bool else [option.flag, text(rng, option)]
    return words


def study_words(rng: Random, name: str) -> list[str]:
    words = [name, *TINY[name].split(), "--jobs", "1"]
    words += some_options(rng, study.get(name).settings, 3)
    for flag, values in RUNNING.items():
        if rng.random() < 0.05:
            words += [flag, str(pick(rng, values))]
    # The errata have ten points at least.
    if rng.random() < (0.9 if name == "errata" else 0.45):
        words.append("--dry-run")
    return words


def other_words(rng: Random, name: str) -> list[str]:
    if name == "scalars":
        from deqcli.shared_settings import DeqSettings

        words = [name, *some_options(rng, DeqSettings, 3)]
        if rng.random() < 0.5:
            words += ["--tau0", str(pick(rng, FLOATS))]
        return words
    if name == "list":
        return [
            name,
            str(pick(rng, ("activations", "datasets", "kernels", "presets", *TEXTS[:-1]))),
        ]
    if name == "report":
        place = pick(rng, ("results", "none", "good.toml", "empty", *TEXTS[:-1]))
        return [name, "--results", str(place), "--out", str(pick(rng, ("page.html", "empty", "")))]
    if name == "reproduce":
        presets = ("all", "iclr/figure-1-left", "icml/error-vs-n", "gen/figure-1", *TEXTS[:-1])
        words = [name, "--dry-run", *(str(pick(rng, presets)) for _ in range(rng.integers(3)))]
        return [*words, str(pick(rng, ("--quick", "--paper", "--check", "--force", "--x")))]
    if name == "data":
        command = str(pick(rng, ("path", "verify", "list", "")))
        words = [str(pick(rng, ("mnist", "mnist:test", "mnist:x", "cifar-10", *TEXTS[:-1])))]
        folder = str(pick(rng, ("empty", "good.toml", "none", "")))
        return [name, command, *words[: int(rng.integers(2))], "--data-dir", folder]
    if name == "bench":
        kind = str(pick(rng, tuple(BENCHES)))
        settings, tiny = BENCHES[kind]
        # A match of each activation takes seconds.
        most = 1 if kind == "match" else 2
        return [name, kind, *tiny.split(), *some_options(rng, settings, most)]
    return [name, *([str(pick(rng, TEXTS[:-1]))] if rng.random() < 0.5 else [])]


def prepare(folder: Path) -> None:
    """Put files where commands look for them."""
    (folder / "empty").mkdir()
    rows = "".join(f"{i},{i * i % 7},{i % 3},{i % 2}\n" for i in range(24))
    (folder / "data.csv").write_text("a,b,c,y\n" + rows)
    (folder / "bad.npz").write_bytes(b"PK\x03\x04nonsense")
    (folder / "good.toml").write_text("seed = 3\n")
    (folder / "bad.toml").write_bytes(b"\xff\xfe = [")
    (folder / "bad.json").write_text('{"settings": [1, 2]}')


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def attempt(case: int) -> tuple[str, list[str]]:
    """Call one command in the present folder; say how it ended and what is wrong with that."""
    rng = generator("commands", case)
    names = [*study.names(), *study.names(), *OTHER]
    name = names[case % len(names)]
    words = study_words(rng, name) if name in study.names() else other_words(rng, name)
    if name in (*study.names(), "bench") and "--out" not in words:
        words += ["--out", "results"]
    out, err = io.StringIO(), io.StringIO()
    wrong: list[str] = []
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code: Any = run(words)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        code = f"{type(error).__name__}: {error}"
    said = err.getvalue()
    if code not in (0, 2, 3):
        wrong.append(f"exit code {code}")
    if "Traceback" in said or "please report it" in said:
        wrong.append("an internal error")
    if code == 2 and not USAGE.match(said):
        sentences = [line for line in said.splitlines() if line.startswith("error: ")]
        if len(sentences) != 1 or not said.endswith(f"{sentences[-1]}\n"):
            wrong.append("not one sentence")
    if name == "scalars" and re.search(r",-?(nan|inf)", out.getvalue()):
        wrong.append(f"not finite: {out.getvalue()}")
    for table in Path("results").glob("*.csv"):
        wrong += unexplained(name, tables.read(table))
    shutil.rmtree("results", ignore_errors=True)
    shutil.rmtree("other", ignore_errors=True)
    typed = " ".join(map(repr, words))
    faults = [f"case {case}: deqcli {typed}\n    {said[-600:]}\n    {text}" for text in wrong]
    return "faulty" if faults else f"exit {code}", faults


def hasten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut what takes most of the time and is tested elsewhere."""
    figures = itertools.count()
    draw, write = study.Study.draw, files.write_figure

    def sometimes(self: Any, table: Any) -> Any:
        return draw(self, table) if next(figures) % 10 == 0 else None

    def write_figure(path: Path, figure: Any, digest: str) -> None:
        if figure is None or next(figures) % 4:
            path.write_bytes(b"")
        else:
            write(path, figure, digest)

    monkeypatch.setattr(study.Study, "draw", sometimes)
    monkeypatch.setattr(files, "write_figure", write_figure)
    monkeypatch.setattr(files, "_flush", lambda path: None)
    # The whole errata take half a minute at any n.
    claim = "iclr-figure-1"
    monkeypatch.setattr(false_claims, "CLAIMS", {claim: false_claims.CLAIMS[claim]})
    monkeypatch.setattr(misprints, "NETWORKS", 2)
    monkeypatch.setattr(misprints, "WIDTH", 100)


@pytest.mark.parametrize("cases", batches(), ids=lambda cases: f"from{cases[0]}")
def test_commands(cases, tmp_path, monkeypatch, assert_clean):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEQCLI_DATA_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    prepare(tmp_path)
    hasten(monkeypatch)
    before = contents(tmp_path)
    assert_clean("commands", cases, attempt)
    assert {name: contents(tmp_path).get(name) for name in before} == before
