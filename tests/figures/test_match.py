"""The figure of a match shows the distances that its findings have."""

import deqcli


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
        "\nno exact match": {"design": 0, "family": "lrelu", "layers": "1"},
        "\nno match": {"family": "htanh"},
    }
    for words, case in cases.items():
        result = deqcli.run("match", **asked, **case)
        assert result.figure().get_suptitle().endswith(words)
    # Scalars that agree, and kernels that do not.
    result = deqcli.run("match", **asked, design=0, within=1e-9)
    assert not result.findings["feasible"]
    assert result.figure().get_suptitle().endswith("\nno match")
