"""Every preset names a study and only options of it, and runs; sizes cut what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from deqcli import misprints, study
from deqcli.cli import run as run_cli
from deqcli.errors import InputError
from deqcli.reproduction import presets
from deqcli.reproduction.running import missing_data
from deqcli.reproduction.summary import quantities_of
from deqcli.runs.execute import run

ROOT = Path(__file__).parents[1]
README = (ROOT / "experiments" / "README.md").read_text(encoding="utf-8")
FOLDER = Path(os.environ.get("DEQCLI_DATA_DIR", ROOT.parent / "shared" / "data"))

FIGURES = {
    "hld/figure-1-ck", "hld/figure-1-ntk",
    "iclr/figure-1-left", "iclr/figure-1-right", "iclr/figure-2-gmm",
    "iclr/figure-2-gmm-printed", "iclr/figure-2-mnist",
    "iclr/figure-3-a", "iclr/figure-3-b", "iclr/figure-3-c",
    "icml/error-vs-n", "icml/h-tanh", "icml/l-relu", "icml/accuracies",
    "gen/figure-1", "errata/printed-forms",
}  # fmt: skip

#: Far below --quick: only to see each preset go all the way through its study.
TINY = {
    "spectrum": {"n": 60, "realizations": 4, "width": 30},
    # A twin at one norm is near at the size of the figures; at n = 60 the norms spread too far.
    "match": {"n": 60, "realizations": 4, "width": 30, "within": 0.05},
    "error-vs-n": {"n": (32, 64), "trials": 1},
    "errata": {"n": (32, 64), "trials": 1},
    "accuracy": {"widths": (8, 16), "train_size": 60, "test_size": 40, "epochs": 1, "trials": 1,
                 "batch": 30},
    "flow": {"n": 20, "test_size": 10, "widths": (20, 40), "steps": 4, "trials": 1},
}  # fmt: skip

# The features of CIFAR-10 take half a minute to unpack.
EACH = [
    pytest.param(name, marks=pytest.mark.slow) if name == "iclr/figure-3-c" else name
    for name in sorted(FIGURES)
]


def document(name: str) -> dict[str, object]:
    return tomllib.loads((presets.folder() / f"{name}.toml").read_text(encoding="utf-8"))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("DEQCLI_DATA_DIR", str(FOLDER))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(misprints, "NETWORKS", 2)
    monkeypatch.setattr(misprints, "WIDTH", 100)
    return tmp_path


def need(preset: presets.Preset) -> None:
    if missing := missing_data(preset):
        pytest.skip(missing)


def test_one_for_each_figure():
    assert set(presets.names()) == FIGURES
    papers = [name.partition("/")[0] for name in presets.names()]
    assert list(dict.fromkeys(papers)) == list(presets.papers())


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_preset_says_what_it_is(name):
    preset = presets.load(name)
    texts = document(name)["figure"]
    assert {"title", "about", "open"} <= set(texts)
    assert any(word in preset.figure.open for word in ("eft open", "hosen here"))
    assert preset.heading.startswith(preset.figure.title)
    # What the summary and the page show is on one line, and of a quantity that there is.
    assert "\n" not in "".join([preset.figure.about, *preset.figure.notes.values()])
    shown = {quantity.key: quantity for quantity in quantities_of(preset)}
    for key, text in preset.figure.printed.items():
        assert str(shown[key].paper) == text
        # A printed number depends on the size.
        assert {"n", "p"} <= set(shown[key].needs)
    for key, text in preset.figure.notes.items():
        assert shown[key].note == text


@pytest.mark.usefixtures("no_small_runs")
@pytest.mark.parametrize("name", EACH)
def test_preset_is_a_settings_file_of_its_command(name, here, capsys):
    preset = presets.load(name)
    need(preset)
    path = presets.folder() / f"{name}.toml"
    code = run_cli([preset.study.name, "--config", str(path), "--dry-run"])
    assert code == 0, capsys.readouterr().err


@pytest.mark.parametrize("name", EACH)
def test_preset_runs_shrunk_and_has_its_quantities(name, here):
    preset = presets.load(name)
    need(preset)
    changes = dict(TINY[preset.study.name])
    if getattr(preset.settings, "p", None) is not None:
        changes["p"] = 80
    result = run(preset.study.name, replace(preset.settings, **changes), jobs=1)
    assert result.status == "done"
    expected = tuple(preset.figure.expected)
    assert not [each for each in result.shortcomings if not each.endswith(expected)]
    quantities = quantities_of(preset)
    assert quantities
    for quantity in quantities:
        assert np.isfinite(quantity.measure(result).value), quantity.key
        if quantity.over_seeds is not None:
            assert np.isfinite(quantity.over_seeds(result).value), quantity.key


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_presets_set_whatever_a_size_cuts(name):
    preset = presets.load(name)
    limits = {*preset.study.quick, *preset.study.standard} - set(preset.settings.unused())
    assert {option.replace("_", "-") for option in limits} <= set(document(name))


def test_sizes_only_ever_shrink():
    for name in presets.names():
        whole = presets.load(name)
        assert presets.sized(whole, "paper") == whole
        quick, standard = presets.sized(whole, "quick"), presets.sized(whole, "standard")
        for key in quick.cut:
            small, large = getattr(quick.settings, key), getattr(whole.settings, key)
            assert set(small) < set(large) if isinstance(small, tuple) else small < large
        unchanged = {key: getattr(whole.settings, key) for key in quick.cut}
        assert replace(quick.settings, **unchanged) == whole.settings
        assert set(standard.cut) <= {"widths"}
        assert whole.study.name == "accuracy" or not standard.cut


def test_dimension_falls_with_the_number_of_samples():
    whole = presets.load("iclr/figure-1-left")
    large = replace(whole, settings=replace(whole.settings, n=4000, p=5000))
    quick = presets.sized(large, "quick")
    assert (quick.settings.n, quick.settings.p) == (1000, 1250)
    assert set(quick.cut) == {"n", "p", "realizations"}


def test_readme_of_the_presets_states_the_limits():
    text = README.partition("## Sizes")[2].partition("\n## ")[0]
    table = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| `")]
    assert sorted(row[0].strip(" `") for row in table) == sorted(study.names())
    for name, standard, quick in table:
        limited = study.get(name.strip(" `"))
        for cell, limits in ((standard, limited.standard), (quick, limited.quick)):
            words = cell.replace(";", " ").replace(",", " ").split()
            numbers = sorted(int(word) for word in words if word.isdigit())
            assert numbers == sorted(limits.values()), (name, cell)


def test_readme_of_the_presets_has_every_key_and_an_example_that_loads(tmp_path):
    (example,) = re.findall(r"```toml\n(.*?)```", README, flags=re.DOTALL)
    preset = read(tmp_path, example)
    assert (preset.study.name, preset.settings.act) == ("spectrum", "arctan")
    assert [str(each.paper) for each in quantities_of(preset)] == ["0.12", "None"]
    known = {part.name for part in fields(presets.FigureText)}
    assert set(re.findall(r"^\| `(\w+)` \| (?=[a-z])", README.partition("## ")[0], re.M)) == known
    assert {part.name for part in fields(presets.Paper)} == {"key", "title", "venue"}


def read(tmp_path: Path, text: str) -> presets.Preset:
    path = tmp_path / "y.toml"
    path.write_text(text)
    return presets.read(path, "x/y")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('study = "match"\nn = "abc"\n', "`n` is 'abc'; give a whole number at least 2"),
        ('study = "match"\nn = true\n', "`n` is True; give a whole number"),
        ('study = "errata"\nn = [64, "abc"]\n', "`n` is 'abc'; give a whole number"),
        ('study = "errata"\nn = [[64, 128]]\n', r"`n` is \[64, 128\]; give a whole number"),
        ('study = "match"\ndata = "mnits"\n', "mnits"),
        ('study = "spectrum"\nsigma-a = 1\n', "unknown key 'sigma-a'; did you mean sigma-a2?"),
        ("n = 100\n", "it names no study"),
        ('study = "spektrum"\n', "there is no study 'spektrum'; did you mean spectrum?"),
        ('study = "match"\n[figure]\npages = 3\n', "unknown key 'pages' of its figure; did you"),
        ('study = "match"\n[figure]\npage = "3"\n', "figure.page is '3'; give a whole number"),
        ('study = "match"\n[figure]\ntitle = 3\n', "figure.title is 3; give a text"),
        (
            'study = "match"\n[figure]\nexpected = "lost"\n',
            "figure.expected is 'lost'; give",
        ),
        ('study = "match"\n[figure]\nprinted = "1.0"\n', "figure.printed is '1.0'; give a table"),
        # A number would lose its last digit: 0.10 is not 0.1.
        ('study = "match"\n[figure.printed]\nx = 0.10\n', "figure.printed.x is 0.1; give a text"),
        ('study = "match"\n[figure.printed]\nx = "few"\n', "printed.x is 'few'; give a number"),
    ],
)
def test_wrong_presets_are_named_with_their_mistake(tmp_path, text, message):
    with pytest.raises(InputError, match=rf"The preset x/y: .*{message}"):
        read(tmp_path, text)


def test_file_that_is_no_toml_is_named(tmp_path):
    with pytest.raises(InputError, match=r"y\.toml is no settings file"):
        read(tmp_path, "n = \n")


def test_number_printed_for_no_quantity_is_an_error(tmp_path):
    preset = read(tmp_path, 'study = "match"\n[figure.printed]\nmatched = "0.12"\n')
    with pytest.raises(InputError, match="The preset x/y: there is no quantity 'matched'"):
        quantities_of(preset)


def test_unknown_preset_suggests_the_nearest():
    with pytest.raises(InputError, match="no preset 'iclr/figure-1-lft'; did you mean iclr/fig"):
        presets.load("iclr/figure-1-lft")


def test_preset_without_texts_is_called_by_its_name(tmp_path):
    preset = read(tmp_path, 'study = "match"\n')
    assert (preset.heading, preset.stem) == ("x/y", "x-y")


def test_installed_package_is_looked_at_first(tmp_path, monkeypatch):
    inside = tmp_path / "deqcli" / "experiments" / "a"
    inside.mkdir(parents=True)
    (inside / "b.toml").write_text(
        'study = "spectrum"\n[figure]\ntitle = "Paper, Figure 1"\npage = 4\nabout = """\nWhat it\n'
        'shows."""\n'
    )
    (tmp_path / "experiments").mkdir()
    monkeypatch.setattr(presets, "_PACKAGE", tmp_path / "deqcli")
    assert presets.names() == ("a/b",)
    preset = presets.load("a/b")
    assert (preset.heading, preset.figure.about) == ("Paper, Figure 1, p. 4", "What it shows.")


@pytest.mark.slow
def test_presets_ship_in_the_wheel(tmp_path):
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*command, "--wheel-dir", str(tmp_path), str(ROOT)], check=True, timeout=200)
    (wheel,) = tmp_path.glob("deqcli-*.whl")
    files = set(zipfile.ZipFile(wheel).namelist())
    assert {f"deqcli/experiments/{name}.toml" for name in FIGURES} <= files
    assert "deqcli/experiments/papers.toml" in files


def test_a_pipe_is_no_preset(tmp_path):
    """Nobody writes to it, so that reading it would wait without end."""
    os.mkfifo(tmp_path / "f.json")
    with pytest.raises(InputError, match=r"f\.json is no file; give one of settings"):
        presets.load(str(tmp_path / "f.json"))
