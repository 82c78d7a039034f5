"""Every preset names a command and only options of it, with values that it takes."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = Path(os.environ.get("DEQCLI_DATA_DIR", ROOT.parent / "shared" / "data"))
PRESETS = sorted((ROOT / "experiments").glob("*/*.toml"))


@pytest.mark.parametrize("path", PRESETS, ids=[f"{p.parent.name}/{p.stem}" for p in PRESETS])
def test_preset_loads(path, tmp_path, monkeypatch, capsys):
    from deqcli.cli import run

    settings = tomllib.loads(path.read_text(encoding="utf-8"))
    assert path.read_text(encoding="utf-8").startswith("# ")
    data = settings.get("data", "gmm")
    if data not in ("gmm", "sphere") and not (FOLDER / data).is_dir():
        pytest.skip(f"{data} is not in DEQCLI_DATA_DIR")
    monkeypatch.setenv("DEQCLI_DATA_DIR", str(FOLDER))
    monkeypatch.chdir(tmp_path)
    assert run([settings["command"], "--config", str(path), "--dry-run"]) == 0, (
        capsys.readouterr().err
    )


def test_there_are_presets():
    assert PRESETS
