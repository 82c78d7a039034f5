"""A study small enough to test with: mean spectra of random matrices, whose last digits show BLAS.

Also a program, ``python -m toy_study OUT``, for tests that kill it. Points from
``TOY_GATE_FROM`` on wait for the file ``TOY_GATE``, so that a test knows where the run stands;
with ``TOY_STUBBORN`` they do not end at Ctrl-C either.

Importing this module makes the study known. A worker imports it when it unpickles the settings of
a point, so workers of every kind know the study without further ado.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import deqcli.studies
from deqcli.runs.execute import run
from deqcli.runs.seeds import stream
from deqcli.settings import setting
from deqcli.shared_settings import SeedSettings
from deqcli.study import Assembled, Study

FOLDER = str(Path(__file__).parent / "toy_studies")
# Not as the program itself, nor under the name that pytest gives it when it looks for doctests.
if __name__ == "toy_study":
    deqcli.studies.__path__.append(FOLDER)


@dataclass(frozen=True, kw_only=True)
class ToySettings(SeedSettings):
    """Settings of the toy study."""

    size: int = setting(300, "Rows of the matrices.", least=1)
    trials: int = setting(6, "Matrices.", least=1)
    scale: float = setting(0.5, "Their scale.", above=0)
    broken: int | None = setting(None, "A trial that fails.")
    save: bool = setting(False, "Write the mean spectrum too.")


class Toy(Study):
    """Spectra of random matrices."""

    name = "toy"
    settings = ToySettings

    def prepare(self, settings):
        return settings

    def points(self, settings):
        return {f"trial {trial}": (trial,) for trial in range(settings.trials)}

    def compute(self, prepared, trial):
        wait_at_gate(trial)
        if trial == prepared.broken:
            raise ArithmeticError(f"trial {trial} is broken")
        draws = stream(prepared.seed, "toy", trial).standard_normal((prepared.size,) * 2)
        # A product and not an eigenproblem alone: BLAS splits both by its threads.
        gram = prepared.scale * draws @ draws.T
        return {"eigenvalues": np.linalg.eigvalsh(gram)}

    def assemble(self, prepared, load):
        trials = [load(f"trial {trial}")["eigenvalues"] for trial in range(prepared.trials)]
        table = pd.DataFrame(
            {
                "trial": np.repeat(np.arange(len(trials)), prepared.size),
                "index": np.tile(np.arange(prepared.size), len(trials)),
                "eigenvalue": np.concatenate(trials),
            }
        )
        arrays = {"mean": np.mean(trials, axis=0)} if prepared.save else None
        return Assembled(table, {"largest": table["eigenvalue"].max()}, arrays)

    def draw(self, table):
        figure = Figure(figsize=(2, 2), dpi=50)
        axes = figure.subplots()
        axes.hist(table["eigenvalue"], bins=10)
        return figure

    def memory(self, settings):
        return 1000


STUDY = Toy()


def wait_at_gate(trial):
    gate = os.environ.get("TOY_GATE")
    if gate and trial >= int(os.environ["TOY_GATE_FROM"]):
        gate = Path(gate)
        gate.with_name(f"waiting-{trial}-{os.getpid()}").touch()
        try:
            while not gate.exists():
                time.sleep(0.01)
        finally:
            while "TOY_STUBBORN" in os.environ and not gate.exists():
                gate.with_name("stubborn").touch()
                time.sleep(0.01)


def run_toy(out, *, jobs=1, **keywords):
    """Run the study in one process unless told otherwise."""
    return run("toy", out=out, **{"name": "toy", "jobs": jobs} | keywords)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--scheduler")
    options = parser.parse_args()
    try:
        result = run_toy(options.out, jobs=options.jobs, scheduler=options.scheduler)
    except KeyboardInterrupt:
        return 130
    return result.exit_code


if __name__ == "__main__":
    # Run as a program this file is __main__; workers look for its classes by the module's name.
    import toy_study

    sys.exit(toy_study.main())
