"""What the other pages of docs/ say with a number or a comparison, made by rule."""

from __future__ import annotations

import re

from claims_reading import ROOT, findings, settings, table, timings

from deqcli import study
from deqcli.kernel_ridge import DIRECT
from deqcli.storage import MOST_DENSE

#: Rates that docs/large.md states, on which its arithmetic for a million samples rests: seconds of
#: one pass and one product on one core at 60 000 samples, seconds a task of Dask.
PASS, PRODUCT, TASK = 154.0, 1.44, 1.5e-3


def page(name: str) -> str:
    """Return a page of the documentation."""
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def _spaced(number: float) -> str:
    return f"{number:,.0f}".replace(",", " ")


def idea() -> list[str]:
    """What the theory says; no result of ours."""
    return [
        "If the samples are high-dimensional, their pairwise angles are all near 90°, and their "
        "norms nearly the same.",
        "The function that makes the kernel is then only needed near one point, and a few of its "
        "Taylor coefficients are enough.",
    ]


def start() -> list[str]:
    """Sizes of the commands of the page, and defaults."""
    (sizes,) = set(re.findall(r"--n (\d+) --p (\d+)", page("start.md")))
    defaults = study.get("spectrum").settings()
    design = study.get("match").settings().design
    # "half": a twin is fitted to so many samples, and at most to half of them.
    assert design == int(sizes[0]) / 2
    return [
        "Python 3.11 or newer, on Linux or macOS.",
        f"In the figure, blue is the kernel of a ReLU DEQ on {sizes[0]} samples of a two-class "
        f"Gaussian mixture in {sizes[1]} dimensions, and red the closed-form matrix that the theory "
        "puts in its place; the legend says how far apart they are.",
        f"Without `--estimator exact` it adds the average over {defaults.realizations} "
        f"random networks of {defaults.width} neurons.",
        "This fits an explicit network of one or two layers to the DEQ's kernel on half of the samples, "
        "says how near it is on the others, draws both spectra, and writes both networks as "
        "`twin-torch.py`, which needs numpy and torch alone.",
        "A twin that is not near enough is an answer, too: the exit code is 3, and the output says "
        "what would help.",
    ]


def index() -> list[str]:
    """Its figure, and what is where."""
    return [
        f"*Blue: eigenvalues of the kernel of a tanh DEQ on {settings('spectrum-tanh')['n']} samples "
        "of a two-class mixture.",
        f"| [Whole data sets](large.md) | kernels of {_spaced(settings('mnist-60000')['n'])} samples "
        "and more, on one machine or many |",
        "| [What was found](findings.md) | which claims of the papers hold, which are undecided, "
        "what is misprinted |",
    ]


def commands() -> list[str]:
    """The one measured number of docs/commands.md."""
    slope = findings("icml-error-vs-n")["own_slopes"]["tanh"]
    return [
        "Beside it the equivalent with own norms, whose error falls like 1/n for odd activations "
        f"(at the default sizes and means faster, like n^({slope:.1f}) for tanh; [why](theory.md)), and the "
        "constant that the theory predicts for the others.".replace("(-", "(−")
    ]


def large() -> list[str]:
    """All of docs/large.md."""
    n = settings("mnist-60000")["n"]
    split = findings("mnist-60000")["density"]["split"]
    used = timings("mnist-60000")
    share = used["points"] / (used["points"] + used["assembly"])
    return [
        f"An exact kernel of $n$ samples has $n^2$ entries of eight bytes: {8e-9 * n**2:.1f} GB for "
        f"the {_spaced(n)} images of MNIST.",
        f"Beyond {_spaced(MOST_DENSE)} samples it is kept as an operator instead,",
        f"* `--storage memory` keeps the panels in memory (estimated for {_spaced(n)} samples: 5.4 "
        "GiB), `--storage disk` maps them from the folder of results and needs 2.1 GiB.",
        f"That is {100 * split:.1f} % for MNIST, and matters only between the two groups.",
        "* `accuracy --limit regression` trains the DEQ of infinite width to the end by least squares, "
        "with Θ (or, with `--train readout`, with $G$), by preconditioned conjugate gradients beyond "
        f"{_spaced(DIRECT)} samples, and says its test accuracy and the residual that is left.",
        f"`DEQClassifier` goes this way beyond `direct` = {_spaced(DIRECT)} samples:",
        large_runs(),
        f"Of the spectrum's time {100 * share:.0f} % is the pass over the pairs, the rest are products "
        "for eigenvalues and density, and the law.",
        _beside_the_product(),
        _images(),
        *_million(),
    ]


def _beside_the_product() -> str:
    """Say at which size the pass was compared with X Xᵀ, as *Speed* of the findings has it."""
    text = r"at n = ([\d ]+) the pass took ([\d.]+) times the processor time of X Xᵀ\."
    ((size, ratio),) = re.findall(text, page("findings.md"))
    return (
        f"The pass took {ratio} times the processor time of X Xᵀ at {size} samples; at "
        f"{_spaced(settings('mnist-60000')['n'])} the product was not timed."
    )


def _images() -> str:
    """Say whether errors on images fall with n."""
    rows = table("error-vs-n-mnist-60000")
    sizes = sorted(set(rows["n"]))
    ends, slopes = [], findings("error-vs-n-mnist-60000")["slopes"]
    for act, group in rows.groupby("act", sort=False):
        by_size = 100 * group.groupby("n")["error"].mean()
        ends.append(f"{by_size[sizes[0]]:.1f} % → {by_size[sizes[-1]]:.1f} % for {act}")
    # "does not fall": by far not like a rate.
    assert all(abs(slope) < 0.05 for slope in slopes.values())
    return (
        f"On images the error does not fall with n ({' and '.join(ends)} at n = {sizes[0]} → "
        f"{_spaced(sizes[-1])}): their dimension is what it is, and the theory's rate is for both "
        "growing together."
    )


def _million() -> list[str]:
    """Arithmetic for a million samples, from the rates above."""
    n, p, machines, cores, measured = 10**6, 784, 32, 16, 60_000
    pairs = measured**2 / 2
    panels = n**2 / machines / 1e9
    vector = 8e-6 * n
    sums = machines * cores - 1
    network = sums * vector / machines / 1e3
    tasks = 2 * machines * cores - 1
    read, sent, handled = panels / 40, network / (10 / 8), TASK * tasks
    client = 2 * 8e-9 * n * p
    assert handled > max(read, sent)
    # Read, sent and handled one after the other, and a second of the client's.
    total = 300 * (read + sent + handled + 1) / 60
    assert 10 < total < 20
    return [
        f"**What a million samples would take**, at $p = {p}$ on {machines} machines of {cores} cores, "
        f"one worker of {cores} threads on each.",
        "This is arithmetic from rates measured on one core at $n = 60\\,000$ (tanh, MNIST: a pass of "
        f"{PASS:.0f} s, ${1e8 * PASS / pairs:.1f}\\cdot10^{{-8}}$ s a pair; a product of {PRODUCT} s, "
        f"{measured**2 / PRODUCT / 1e9:.1f} GB/s) and on a small local cluster ({1e3 * TASK:.1f} ms a "
        "task); it was not run.",
        f"* *Memory*: panels of $10^{{12}}$ bytes, {panels:.0f} GB on each machine; samples, their "
        "directions and the factors of series and equivalent, about 17 GB on each.",
        f"* *Pass*: $5\\cdot10^{{11}}$ pairs, {n**2 / 2 * PASS / pairs / (machines * cores):.0f} s on "
        f"{machines * cores} cores that are as fast together as one is alone.",
        f"* *Product with a vector*: {panels:.0f} GB read on each machine, {read:.1f} s if {cores} cores "
        "get 40 GB/s.",
        f"The network carries {vector:.0f} MB to each machine, and at most {sums} sums of {vector:.0f} MB "
        f"between them, {network:.2f} GB a machine or {sent:.1f} s at 10 Gbit/s.",
        f"Dask handles {tasks} tasks, {handled:.1f} s, which is the largest part; a block of eight "
        "vectors needs them once.",
        f"The client adds the equivalent's part, two readings of the samples ({client:.1f} GB), about a "
        "second.",
        "* *Spectrum*: some 300 products, a quarter of an hour.",
    ]


def large_runs() -> str:
    """Return the table of docs/large.md: what all of MNIST took, and what came out."""

    def took(stem: str) -> str:
        used = timings(stem)
        minutes = (used["points"] + used["assembly"]) / 60
        return f"{used['peak_bytes'] / 2**30:.1f} GiB | {minutes:.0f} min"

    spectrum = findings("mnist-60000")["distances"]["exact"]
    errors = table("error-vs-n-mnist-60000").query("n == 60000").set_index("act")
    lines = [
        "| run | memory | time | found |",
        "| --- | --- | --- | --- |",
        f"| `spectrum`, tanh, Λ | {took('mnist-60000')} | ‖Λ − Λ̄‖ = {spectrum['distance']:.1f} of "
        f"{spectrum['norm']:.0f}, ‖Λ − Λ̄'‖ = {spectrum['own_norm']:.2f}; rounding changes either by "
        f"{spectrum['rounding']:.1g} at most |",
    ]
    for stem, name in (("mnist-60000-ntk", "Θ"), ("mnist-60000-ck", "G")):
        found = findings(stem)["regression"]
        lines.append(
            f"| `accuracy --limit regression`, ReLU, {name} | {took(stem)} | "
            f"{100 * found['accuracy']:.2f} % of 10 000 test images right, residual "
            f"{found['residual']:.0e} |"
        )
    shown = ", ".join(
        f"{act} {100 * row['error']:.0f} % and {100 * row['own_error']:.1f} % with own norms"
        for act, row in errors.iterrows()
    )
    lines.append(
        f"| `error-vs-n`, G, to 60 000 | {took('error-vs-n-mnist-60000')} | relative error of {shown} |"
    )
    return "\n".join(lines)


#: Pages that are checked whole.
PAGES = {"large.md": large, "idea.md": idea, "start.md": start, "index.md": index}
