"""What README and docs/findings.md say of the first figure and of whole data sets, made by rule."""

from __future__ import annotations

import numpy as np
from claims_reading import findings, settings, span, table, timings


def head() -> list[str]:
    """The figure at the top, its caption."""
    rows = table("spectrum-tanh")
    first = rows[rows["source"] == "monte-carlo"].iloc[0]
    found = findings("spectrum-tanh")["distances"]["monte-carlo"]
    return [
        image(
            "spectrum-tanh",
            f"Eigenvalues of a tanh DEQ's kernel, averaged over {first['realizations']} random "
            "networks, lie on those of a closed-form matrix and under the predicted law",
            'align="right" width="400"',
        ),
        f"*Eigenvalues of the kernel Λ of a tanh DEQ on {first['n']} samples. Blue: the average over "
        f"{first['realizations']} random networks. Red: the closed form, as in the papers and (dotted) "
        "with every sample's own norm. Black: the law, computed without any sample. The average is "
        f"{100 * found['relative']:.2g} % of ‖Λ‖ from the papers' matrix, or "
        f"{100 * found['network_relative']:.2g} % of the norm of what is left of Λ without the "
        "inputs' own kernel.*",
    ]


def image(stem: str, text: str, attributes: str) -> str:
    """Return a figure of the README, of a size that leaves room for words."""
    return f'<img {attributes} src="results/{stem}.png" alt="{text}">'


def headline() -> list[str]:
    """Return what else there is to say of the README's figure."""
    rows, found = table("spectrum-tanh"), findings("spectrum-tanh")
    average, exact = (found["distances"][source] for source in ("monte-carlo", "exact"))
    spikes = found["law"]["spikes"]
    measured = np.sort(rows[(rows["source"] == "exact") & rows["isolated"]]["eigenvalue"])[::-1]
    places = np.array([spike["position"] for spike in spikes])
    off = 100 * float(np.abs(places / measured - 1).max())
    shares = [100 * sum(spike["alignment"]) for spike in spikes]
    return [
        f"In the README's figure the average is {average['distance']:.2g} from the papers' matrix, "
        f"{100 * average['relative']:.2g} % of ‖Λ‖. Of that norm, {average['norm']:.3g}, the inputs "
        f"make {average['input_norm']:.3g} by σb² XᵀX, which both matrices have; of G, the part that "
        f"the network adds, it is {100 * average['network_relative']:.2g} %. The exact kernel is "
        f"{exact['distance']:.2g} from the papers' matrix and {exact['own_norm']:.2g} from the one with "
        f"own norms. The law says where the {len(spikes)} isolated eigenvalues lie (the exact kernel's "
        f"are {off:.1f} % away at most), and that classes make {span(shares, '.0f', ' %')} of their "
        "eigenvectors.",
    ]


def whole_in_short() -> str:
    """Say the same of all of MNIST in a line."""
    here, took = findings("mnist-60000")["distances"]["exact"], timings("mnist-60000")
    return (
        f"On all {settings('mnist-60000')['n']} images of MNIST they are {100 * here['relative']:.2g} % "
        f"and {100 * here['own_norm'] / here['norm']:.2g} % of ‖Λ‖ away, in "
        f"{took['peak_bytes'] / 1e9:.1f} GB and {_minutes(took):.0f} minutes on {took['jobs']} core "
        "([figure](docs/large.md))."
    )


def _minutes(took: dict[str, float]) -> float:
    return (took["points"] + took["assembly"]) / 60


def whole() -> str:
    """Say how near the closed forms are on all of MNIST, and what that took."""
    here, took = findings("mnist-60000")["distances"]["exact"], timings("mnist-60000")
    # What is a share of ‖Λ‖ is so many times the share of what the network adds.
    times = here["network_relative"] / here["relative"]
    own = here["own_norm"] / here["norm"]
    return (
        f"All {settings('mnist-60000')['n']} images of MNIST at once: the exact kernel Λ of a tanh DEQ "
        f"is {100 * here['relative']:.2g} % of its norm from the papers' matrix "
        f"({100 * here['network_relative']:.2g} % of G, what the network adds), and {100 * own:.2g} % "
        f"({100 * times * own:.2g} % of G) from the one with own norms. That took "
        f"{took['peak_bytes'] / 1e9:.1f} GB and {_minutes(took):.0f} minutes on {took['jobs']} core "
        "([how](large.md))."
    )
