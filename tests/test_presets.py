"""Every preset names a command and only options of it, and runs; sizes cut what they say."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest
from deqcli.reproduction.quantities import QUANTITIES

from deqcli import presets
from deqcli.errors import InputError
from deqcli.reproduction.running import _missing_data, read

ROOT = Path(__file__).parents[1]
FOLDER = Path(os.environ.get("DEQCLI_DATA_DIR", ROOT.parent / "shared" / "data"))

FIGURES = {
    "hld/figure-1-ck", "hld/figure-1-ntk",
    "iclr/figure-1-left", "iclr/figure-1-right", "iclr/figure-2-gmm", "iclr/figure-2-mnist",
    "iclr/figure-3-a", "iclr/figure-3-b", "iclr/figure-3-c",
    "icml/error-vs-n", "icml/h-tanh", "icml/l-relu", "icml/accuracies",
    "gen/figure-1", "errata/printed-forms",
}  # fmt: skip

#: Far below --quick: only to see each preset go all the way through its command.
TINY = {
    "spectrum": {"n": 60, "realizations": 4, "width": 30},
    "match": {"n": 60},
    "error-vs-n": {"n": [32, 64], "trials": 1},
    "errata": {"n": [32, 64], "trials": 1},
    "accuracy": {"widths": [8, 16], "train-size": 60, "test-size": 40, "epochs": 1, "trials": 1,
                 "batch": 30},
    "flow": {"n": 20, "test-size": 10, "widths": [20, 40], "steps": 4, "trials": 1},
}  # fmt: skip


# The features of CIFAR-10 take half a minute to unpack.
EACH = [
    pytest.param(name, marks=pytest.mark.slow) if name == "iclr/figure-3-c" else name
    for name in sorted(FIGURES)
]


def shrunk(preset: presets.Preset) -> presets.Preset:
    settings = {**preset.settings, **TINY[preset.command]}
    if "p" in settings:
        settings["p"] = 80
    return presets.Preset(preset.name, preset.command, settings, preset.title, preset.about)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("DEQCLI_DATA_DIR", str(FOLDER))
    monkeypatch.chdir(tmp_path)
    from deqcli.studies import errata

    monkeypatch.setattr(errata, "_NETWORKS", 2)
    monkeypatch.setattr(errata, "_WIDTH", 100)
    return tmp_path


def need(preset: presets.Preset) -> None:
    missing = _missing_data(preset)
    if missing:
        pytest.skip(missing)


def test_one_for_each_figure():
    assert set(presets.names()) == FIGURES == set(QUANTITIES)


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_preset_is_documented_data(name):
    text = (presets.folder() / f"{name}.toml").read_text(encoding="utf-8")
    preset = presets.load(name)
    assert text.startswith("# ")
    assert preset.title
    assert any(word in preset.about for word in ("eft open", "hosen here", "exact kernels"))
    settings = tomllib.loads(text)
    assert not any(isinstance(value, dict) for value in settings.values())


@pytest.mark.parametrize("name", EACH)
def test_preset_loads_as_a_settings_file(name, here, capsys):
    from deqcli.cli import run
    from deqcli.cli.reproduce import _options

    preset = presets.load(name, _options)
    need(preset)
    path = presets.folder() / f"{name}.toml"
    code = run([preset.command, "--config", str(path), "--dry-run"])
    assert code == 0, capsys.readouterr().err


@pytest.mark.parametrize("name", EACH)
def test_preset_runs_shrunk_and_has_its_quantities(name, here, capsys):
    from deqcli.cli import run

    preset = shrunk(presets.load(name))
    need(preset)
    code = run(["--quiet", *preset.arguments(), "--name", "tiny", "-j", "1"])
    assert code == 0, capsys.readouterr().err
    done = read(here / "results", "tiny")
    assert done is not None
    for quantity in QUANTITIES[name]:
        assert np.isfinite(quantity.measure(done).value), quantity.name
    given = done.record["options"]
    assert given["command"] == preset.command
    for key, value in preset.settings.items():
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        kept = given[key]
        kept = ",".join(map(str, kept)) if isinstance(kept, list) else str(kept)
        assert kept == text, key


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_presets_set_whatever_a_rule_cuts(name):
    preset = presets.load(name)
    for rules in presets.RULES.values():
        assert set(rules.get(preset.command, {})) <= set(preset.settings)


def test_sizes_only_ever_shrink():
    for name in presets.names():
        whole = presets.load(name)
        assert presets.sized(whole, "paper") == whole
        quick, standard = presets.sized(whole, "quick"), presets.sized(whole, "standard")
        assert set(quick.settings) == set(whole.settings)
        for key in quick.cut:
            small, large = quick.settings[key], whole.settings[key]
            assert small < large if not isinstance(small, list) else set(small) < set(large)
        assert set(standard.cut) <= {"widths"}
        assert whole.command == "accuracy" or not standard.cut


@pytest.mark.parametrize("value", ['"abc"', "true", '[64, "abc"]', "[[1]]"])
def test_value_of_the_wrong_type_is_named(value):
    preset = presets.parse("x/y", f'command = "match"\nn = {value}\n')
    with pytest.raises(InputError, match=r"preset x/y has n = .*; give a number"):
        presets.sized(preset, "quick")


def test_readme_of_the_presets_states_the_limits():
    text = (presets.folder() / "README.md").read_text(encoding="utf-8").partition("\n## ")[0]
    for size in ("quick", "standard"):
        for command, rules in presets.RULES[size].items():
            (line,) = [line for line in text.splitlines() if line.startswith(f"| `{command}` ")]
            assert all(str(limit) in line for limit in rules.values()), command


def test_unknown_key_missing_command_and_bad_toml_are_errors():
    from deqcli.cli.reproduce import _options

    with pytest.raises(InputError, match="unknown key 'sigma-a'"):
        presets.parse("x/y", 'command = "spectrum"\nsigma-a = 1\n', _options)
    with pytest.raises(InputError, match="no command"):
        presets.parse("x/y", "n = 1\n")
    with pytest.raises(InputError, match="no command 'spektrum'"):
        presets.parse("x/y", 'command = "spektrum"\n', _options)
    with pytest.raises(InputError, match="not TOML"):
        presets.parse("x/y", "n = \n")


def test_arguments_of_lists_flags_and_numbers():
    settings = {"act": "lrelu:slope=0.3", "n": [64, 128], "limit": True, "force": False, "tol": 0.1}
    words = presets.Preset("a/b", "x", settings, "", "").arguments()
    assert words == ["x", "--act", "lrelu:slope=0.3", "--n", "64,128", "--limit", "--tol", "0.1"]


def test_installed_package_is_looked_at_first(tmp_path, monkeypatch):
    inside = tmp_path / "deqcli" / "experiments" / "a"
    inside.mkdir(parents=True)
    (inside / "b.toml").write_text('# Paper, Figure 1: what it shows.\ncommand = "spectrum"\n')
    (tmp_path / "experiments").mkdir()
    monkeypatch.setattr(presets, "_PACKAGE", tmp_path / "deqcli")
    assert presets.names() == ("a/b",)
    found = presets.load("a/b")
    assert (found.title, found.about) == ("Paper, Figure 1", "What it shows.")


@pytest.mark.slow
def test_presets_ship_in_the_wheel(tmp_path):
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*command, "--wheel-dir", str(tmp_path), str(ROOT)], check=True, timeout=200)
    (wheel,) = tmp_path.glob("deqcli-*.whl")
    files = set(zipfile.ZipFile(wheel).namelist())
    assert {f"deqcli/experiments/{name}.toml" for name in FIGURES} <= files
