"""The figure of a match shows the distances that its findings have."""

import re

import numpy as np
import pandas as pd
import pytest

import deqcli
from deqcli.figures import match


def test_legend_has_distances_also_at_the_scale_of_the_deq():
    result = deqcli.run("match", act="relu", sigma_a2=0.2, n=60, p=80, design=0, seed=1)
    found = result.findings
    legend = result.figure().axes[1].get_legend()
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts == [
        "DEQ",
        *(
            f"{net}: {found[f'{net}_distance']:.3g} ({found[f'{net}_scaled'] * found['norm']:.3g})"
            for net in ("matched", "plain")
        ),
    ]
    assert legend.get_title().get_text() == "distance (at the DEQ's scale)"


def test_a_table_of_before_is_drawn():
    result = deqcli.run("match", act="tanh", sigma_a2=0.1, n=40, p=50, design=0)
    table = result.table.drop(columns="scaled")
    legend = deqcli.study.get("match").draw(table).axes[1].get_legend()
    assert legend.get_title().get_text() == "distance"


def test_title_says_exact_only_of_scalars():
    asked = {"act": "relu", "sigma_a2": 0.2, "n": 60, "p": 80}
    cases = {
        # The scalar that the verdict names, with the residual of the findings.
        r"\nno exact match: \$\\alpha_3\$ differs \(relative residual 0\.\d+\)": {
            "design": 0,
            "family": "lrelu",
            "layers": "1",
        },
        r"\nno match": {"family": "htanh"},
    }
    for words, case in cases.items():
        result = deqcli.run("match", **asked, **case)
        assert re.search(words + "$", result.figure().get_suptitle())
    # Scalars that agree, and kernels that do not.
    result = deqcli.run("match", **asked, design=0, within=1e-9)
    assert not result.findings["feasible"]
    assert result.figure().get_suptitle().endswith("\nno match")


def eigenvalues(spectra: dict[str, np.ndarray]) -> pd.DataFrame:
    """A table of a match with nothing but these spectra and one activation."""
    facts = {"act": "relu", "sigma_a2": 0.2, "data": "mnist", "n": 200, "feasible": True}
    rows = [
        pd.DataFrame({"kind": "eigenvalue", "source": net, "name": "ck", "value": values,
                      "isolated": False, "distance": 0.123, "scaled": 0.123})
        for net, values in spectra.items()
    ]  # fmt: skip
    curve = pd.DataFrame({"kind": "activation", "source": "deq", "name": "phi: relu",
                          "x": [-1.0, 1.0], "value": [0.0, 1.0]})  # fmt: skip
    return pd.concat([curve, *rows], ignore_index=True).assign(**facts)


@pytest.mark.parametrize("shift", [-4.0, 0.0, 4.0])
def test_a_plain_network_whose_spectrum_lies_elsewhere_is_drawn(shift):
    near = np.linspace(5.0, 6.0, 200)
    table = eigenvalues({"deq": near, "matched": near, "plain": near + shift})
    low, high = match.draw(table).axes[1].get_xlim()
    assert low < 5 + min(shift, 0)
    assert high > 6 + max(shift, 0)


def test_no_bin_reaches_the_legend_of_a_logarithmic_axis():
    """The tallest are 150 in one bin, in turn at many places, above bins with a single one."""
    broad = np.concatenate([np.geomspace(1e-3, 1e-1, 197), [1.0, 10.0, 100.0]])
    for place in (1e-2, 1.0, 5.0, 50.0):
        tall = np.concatenate([broad[:50], np.full(150, place)])
        figure = match.draw(eigenvalues({"deq": broad, "matched": broad, "plain": tall}))
        figure.draw_without_rendering()
        axes = figure.axes[1]
        assert axes.get_yscale() == "log"
        legend = axes.get_legend().get_window_extent()
        for patch in axes.patches:
            drawn = patch.get_transform().transform_path(patch.get_path()).vertices
            assert not any(legend.x0 <= x <= legend.x1 and y > legend.y0 for x, y in drawn)
