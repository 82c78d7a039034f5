"""The four papers, by the keys that docstrings, presets and figures use."""

from __future__ import annotations

from dataclasses import dataclass

from deqcli._version import __version__


@dataclass(frozen=True)
class Paper:
    """One paper: who, what, where it appeared, where it can be read."""

    authors: str
    title: str
    where: str
    link: str


PAPERS = {
    "ICML": Paper(
        "Z. Ling, L. Li, Z. Feng, Y. Zhang, F. Zhou, R. C. Qiu, Z. Liao",
        "Deep Equilibrium Models are Almost Equivalent to Not-so-deep Explicit Models for "
        "High-dimensional Gaussian Mixtures",
        "International Conference on Machine Learning, 2024 (PMLR 235, 30585-30609)",
        "https://arxiv.org/abs/2402.02697",
    ),
    "ICLR": Paper(
        "Anonymous",
        "Implicit NNs are Almost Equivalent to Not-so-deep Explicit NNs for High-dimensional "
        "Gaussian Mixtures",
        "submission under double-blind review; an earlier version of the ICML paper",
        "",
    ),
    "HLD": Paper(
        "Z. Ling, Z. Liao, R. C. Qiu",
        "On the Equivalence between Implicit and Explicit Neural Networks: A High-dimensional "
        "Viewpoint",
        "1st Workshop on High-dimensional Learning Dynamics, 2023",
        "https://arxiv.org/abs/2308.16425",
    ),
    "GEN": Paper(
        "T. Gao, H. Gao",
        "On the Optimization and Generalization of Overparameterized Implicit Neural Networks",
        "2022",
        "https://arxiv.org/abs/2209.15562",
    ),
}


def citation() -> str:
    """Return what to cite, a paragraph each.

    Examples
    --------
    >>> citation().count("arxiv.org"), citation().splitlines()[0][:9]
    (3, 'Software:')
    """
    lines = [f"Software: the deqcli developers, deqcli {__version__} (CITATION.cff)."]
    for key, paper in PAPERS.items():
        link = f" {paper.link}" if paper.link else ""
        lines.append(f'{key}: {paper.authors}, "{paper.title}", {paper.where}.{link}')
    return "\n".join(lines) + "\n"
