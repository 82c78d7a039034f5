"""Every citation of theory.md in the package has its section in docs/theory.md."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

import deqcli
from deqcli.gaussian import moments
from deqcli.misprints import ERRATA
from deqcli.scalars import Coefficients

ROOT = Path(__file__).parents[1]
THEORY = (ROOT / "docs/theory.md").read_text(encoding="utf-8")
SECTIONS = {int(number) for number in re.findall(r"^## §(\d+) \S", THEORY, flags=re.MULTILINE)}
#: "theory.md §4", "theory.md §3, §4", "theory.md §2 and §5", "theory.md §1-2".
_CITATION = re.compile(r"theory\.md((?:(?:,| and)?\s+§\d+(?:-\d+)?)+)")


def joined(text: str) -> str:
    """Return a text on one line: a citation may go over the end of a line of a comment."""
    return re.sub(r"\n\s*(?:#:? ?)?", " ", text)


def citations(text: str) -> list[int]:
    """Return the numbers of all sections that a text cites, ranges written out."""
    numbers: list[int] = []
    for cited in _CITATION.findall(joined(text)):
        for first, last in re.findall(r"§(\d+)(?:-(\d+))?", cited):
            numbers += range(int(first), int(last or first) + 1)
    return numbers


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("(ICLR Theorem 1; theory.md §4).", [4]),
        ("(theory.md §3, §4).", [3, 4]),
        ("of theory.md §2\nand §5, the same", [2, 5]),
        ("matrices (theory.md §1-3):", [1, 2, 3]),
        ("# as in theory.md\n    # §7 says", [7]),
        ("GEN §5.1; theory.md §8, GEN §5.2", [8]),
        ("theory.md §99", [99]),
        ("theory.md has none", []),
    ],
)
def test_citations_are_read(text, cited):
    assert citations(text) == cited


def test_every_citation_has_its_section():
    assert sorted(SECTIONS) == list(range(1, 12))
    assert 99 not in SECTIONS
    count = 0
    for path in sorted((ROOT / "deqcli").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        cited = citations(text)
        count += len(cited)
        assert set(cited) <= SECTIONS, path
        # None is written in a way that the expression above does not see.
        assert text.count("theory.md") == len(_CITATION.findall(joined(text))), path
    assert count >= 30


def test_sections_that_the_text_itself_refers_to_exist():
    referred = {int(number) for number in re.findall(r"(?<!GEN )§(\d+)", THEORY)}
    assert referred <= SECTIONS


def test_mathematics_is_closed_and_tables_are_whole():
    """Displays and inline formulas come in pairs; a stroke in a formula would split a cell."""
    assert THEORY.count("$$") % 2 == 0
    for paragraph in re.sub(r"\$\$.*?\$\$", "", THEORY, flags=re.DOTALL).split("\n\n"):
        assert paragraph.count("$") % 2 == 0, paragraph
        rows = [line for line in paragraph.splitlines() if line.startswith("|")]
        assert len({row.count("|") for row in rows}) <= 1, paragraph
    # Not a macro that GitHub allows.
    assert "operatorname" not in THEORY


def test_errors_of_printed_and_right_forms_are_those_of_the_results():
    record = json.loads((ROOT / "results/errata-printed-forms.json").read_text(encoding="utf-8"))
    rows = [line[2:-2].split(" | ") for line in THEORY.splitlines() if line.count(" → ") >= 2]
    shown = {where: errors for where, _, _, *errors in (row for row in rows if len(row) == 5)}
    measured = {
        ERRATA[name].where: [
            f"{curve[f'{form}_errors'][0]:.3g} → {curve[f'{form}_errors'][-1]:.3g}"
            for form in ("printed", "right")
        ]
        for name, curve in record["findings"]["errata"].items()
    }
    assert shown == measured


# What the page states and no other test computes.


def test_leaky_relu_variance_and_slope():
    """ICLR Corollary 2 with +2ab and (a+b)^2 (§7)."""
    a, b, tau = 1.3, 0.4, 1.1
    m = moments(deqcli.activation(f"maxlin:a={a},b={b}"), tau)
    right = ((math.pi - 1) * (a**2 + b**2) + 2 * a * b) / (2 * math.pi) * tau**2
    assert m.gamma2 - m.mean**2 == pytest.approx(right, rel=1e-12)
    assert m.m1**2 == pytest.approx((a + b) ** 2 / 4, rel=1e-12)


@pytest.mark.parametrize("act", ["relu", "lrelu:slope=0.3"])
def test_identity_of_leaky_relus(act):
    """d/tau0^2 - c1 = (2 pi - 4) tau0^2 c2, for the DEQ and for two layers (§6)."""
    tau0 = 1.2
    deq = deqcli.implicit_scalars(act, 0.15, 0.9, tau0).coefficients("ck")
    twin = deqcli.explicit_scalars([act, "maxlin:a=0.9,b=0.2"], tau0).coefficients("ck")
    for c in (deq, twin):
        assert c.d / tau0**2 - c.c1 == pytest.approx((2 * math.pi - 4) * tau0**2 * c.c2, rel=1e-10)
        assert c.c2 >= c.c3 / 2


def test_gauss_hermite_misses_kinks():
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    blind = weights @ np.clip(nodes, -1, 1) ** 2 / weights.sum()
    right = moments(deqcli.activation("htanh:a=1,c=1"), 1.0).gamma2
    assert (round(blind, 4), round(right, 4)) == (0.5199, 0.5161)


@pytest.mark.slow
def test_icml_tangent_kernel_is_that_of_a_network_with_frozen_input_weights():
    """Simulated networks, the gradient in B left out (§2, §7); and its scalars with n."""
    rng = np.random.default_rng(0)
    n, p, width, sa, sb = 6, 30, 700, 0.2, 0.8
    X = rng.standard_normal((n, p)) / np.sqrt(p)
    act = deqcli.activation("relu").centred(sa, sb, 1.0)
    empirical, draws = np.zeros((n, n)), 8
    for _ in range(draws):
        A = rng.standard_normal((width, width)) * np.sqrt(sa)
        injected = X @ rng.standard_normal((p, width)) * np.sqrt(sb)
        a, Z, S = rng.standard_normal(width), np.zeros((n, width)), np.zeros((n, width))
        for _ in range(40):
            U = Z @ A.T + injected
            Z = act(U) / np.sqrt(width)
        slopes = act.derivative(U) / np.sqrt(width)
        for _ in range(40):
            S = slopes * (a + S @ A)
        empirical += (Z @ Z.T) * (1 + sa * S @ S.T) / draws
    k = deqcli.implicit_kernels(X, act, sa, sb)
    # 1/(1 - G') from K = Lambda/(1 - G').
    printed = k.ck * k.preactivation_ntk / k.preactivation_ck
    norm = np.linalg.norm(empirical, 2)
    assert np.linalg.norm(printed - empirical, 2) < 0.06 * norm
    assert np.linalg.norm(k.ntk - empirical, 2) > 0.5 * norm


def test_scalars_of_icml_tangent_kernel():
    """The equivalent of G/(1 - G') with kappa^2 and beta3 as §7 gives them, and as printed."""
    sizes, sa, sb = (250, 500, 1000), 0.2, 0.8
    errors = []
    for n in sizes:
        model = deqcli.GaussianMixture.papers(int(1.25 * n), mean_norm=2.0)
        data = model.sample(n, np.random.default_rng(1))
        statistics = model.statistics(np.bincount(data.y))
        s = deqcli.implicit_scalars("relu", sa, sb, statistics.tau0)
        k = deqcli.implicit_kernels(data.X, deqcli.activation("relu").shifted(s.shift), sa, sb)
        kernel = k.ck * k.preactivation_ntk / k.preactivation_ck
        D = 1 - sa * s.m1**2
        beta1, beta2 = s.alpha1 / D, s.alpha2 / D
        beta3 = (s.alpha3 + beta1 * sa * s.m2**2 * (sa * s.alpha1 + sb)) / D
        printed3 = (s.alpha3 + beta1 * (sa * s.m2**2 + sb) * s.alpha1) / D
        right = Coefficients(beta1, beta2, beta3, s.gamma2 / (1 - sa * s.r), s.tau0)
        printed = Coefficients(beta1, beta2 / s.alpha4, printed3, s.kappa2, s.tau0)
        errors.append([
            deqcli.operator_distance(kernel, deqcli.equivalent(data.X, data.y, c, "ck", statistics))
            for c in (printed, right)
        ])  # fmt: skip
    printed_errors, right_errors = np.array(errors).T
    assert right_errors[-1] < 0.6 * right_errors[0]
    assert printed_errors[-1] > 0.8 * printed_errors[0] > 10 * right_errors[0]


@pytest.mark.slow
def test_one_layer_comes_near_a_relu_deq_but_no_nearer_with_n():
    """One Leaky-ReLU layer with c1 and d of the DEQ (§6): 0.2 % of the norm of G."""
    rows = []
    for n in (200, 800):
        model = deqcli.GaussianMixture.papers(int(1.25 * n), mean_norm=2.0)
        data = model.sample(n, np.random.default_rng(0))
        statistics = model.statistics(np.bincount(data.y))
        tau0 = statistics.tau0
        s = deqcli.implicit_scalars("relu", 0.2, 0.8, tau0)
        kernel = deqcli.implicit_kernels(data.X, deqcli.activation("relu").shifted(s.shift), 0.2).ck
        mean = math.sqrt(s.alpha1)
        half = math.sqrt((s.gamma2 / tau0**2 - s.alpha1) / (1 - 2 / math.pi))
        layer = deqcli.explicit_scalars([f"maxlin:a={mean + half},b={mean - half}"], tau0)
        assert (layer.alpha1, layer.tau2) == pytest.approx((s.alpha1, s.gamma2), rel=1e-10)
        twin = deqcli.explicit_kernels(data.X, layer.acts).ck
        equivalent = deqcli.equivalent(data.X, data.y, s, "ck", statistics)
        distances = [deqcli.operator_distance(kernel, other) for other in (twin, equivalent)]
        rows.append([*distances, np.linalg.norm(kernel, 2)])
    (near, own, norm), (near_later, own_later, norm_later) = rows
    assert (round(near, 4), round(near_later, 4)) == (0.0028, 0.0025)
    assert (round(own, 3), round(own_later, 3)) == (0.056, 0.025)
    assert near / norm < 0.0021
    assert near_later / norm_later < 0.0021
