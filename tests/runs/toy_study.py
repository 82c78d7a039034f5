"""A study small enough to test with: mean spectra of random matrices, whose last digits show BLAS.

Also a program, ``python -m toy_study OUT``, for tests that kill it. Points from
``TOY_GATE_FROM`` on wait for the file ``TOY_GATE``, so that a test knows where the run stands.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from deqcli.runs.seeds import stream
from deqcli.runs.task import Assembled, Task, execute

SPEC = {"seed": 0, "size": 300, "trials": 6, "noise": {"law": "gaussian", "scale": 0.5}}


def run_point(spec, trial):
    wait_at_gate(trial)
    if trial == spec.get("broken"):
        raise ArithmeticError(f"trial {trial} is broken")
    draws = stream(spec["seed"], "toy", trial).standard_normal((spec["size"], spec["size"]))
    # A product and not an eigenproblem alone: BLAS splits both by its threads.
    gram = spec["noise"]["scale"] * draws @ draws.T
    return {"eigenvalues": np.linalg.eigvalsh(gram)}


def wait_at_gate(trial):
    gate = os.environ.get("TOY_GATE")
    if gate and trial >= int(os.environ["TOY_GATE_FROM"]):
        gate = Path(gate)
        gate.with_name(f"waiting-{trial}-{os.getpid()}").touch()
        while not gate.exists():
            time.sleep(0.01)


def assemble_from(spec, load):
    trials = [load(f"trial {trial}")["eigenvalues"] for trial in range(spec["trials"])]
    table = pd.DataFrame(
        {
            "trial": np.repeat(np.arange(len(trials)), spec["size"]),
            "index": np.tile(np.arange(spec["size"]), len(trials)),
            "eigenvalue": np.concatenate(trials),
        }
    )
    arrays = {"mean": np.mean(trials, axis=0)} if spec.get("save") else None
    return Assembled(table, {"largest": table["eigenvalue"].max()}, arrays)


def draw(table):
    figure = Figure(figsize=(2, 2), dpi=50)
    axes = figure.subplots()
    axes.hist(table["eigenvalue"], bins=10)
    return figure


def make_task(**changes):
    spec = SPEC | changes.pop("spec", {})
    settings = {
        "study": "toy",
        "version": 1,
        "spec": spec,
        "points": {f"trial {trial}": (trial,) for trial in range(spec["trials"])},
        "run_point": run_point,
        "assemble": lambda load: assemble_from(spec, load),
        "draw": draw,
    }
    return Task(**settings | changes)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--scheduler")
    options = parser.parse_args()
    try:
        result = execute(
            make_task(),
            out=options.out,
            name="toy",
            jobs=options.jobs,
            scheduler=options.scheduler,
        )
    except KeyboardInterrupt:
        return 130
    return result.exit_code


if __name__ == "__main__":
    # Run as a program this file is __main__; workers look for its functions by the module's name.
    import toy_study

    sys.exit(toy_study.main())
