"""Train the DEQ, its matched twin and a plain network."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from deqcli.errors import InputError
from deqcli.quantities import Claim, Finished, Measured, Quantity, mean_interval
from deqcli.settings import setting, with_default
from deqcli.shared_settings import DeqSettings, SampleSettings, SourceSettings, kernel_setting
from deqcli.study import Assembled, Study, Tolerance
from deqcli.training.settings import TrainingSettings
from deqcli.vocabulary import Kernel, Net, Solver

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from deqcli.data.dataset import Dataset
    from deqcli.study import Arrays, Load
    from deqcli.training.base import Network
    from deqcli.training.trio import Trio

COLUMNS = (
    "dataset", "net", "width", "trial", "epoch", "train_loss", "train_accuracy", "test_loss",
    "test_accuracy", "forward_seconds", "backward_seconds", "iterations", "residual",
    "parameters", "peak_memory", "status",
)  # fmt: skip
#: Measured times: the only columns that differ when the same run is made again.
TIMES = ("forward_seconds", "backward_seconds")
#: The kernels whose regressions are the limits of infinite width.
LIMITS = (Kernel.CK, Kernel.NTK)
_TRAINING, _TEST, _DRAWN = 5000, 4000, 800

# Training magnifies rounding. Measured with OpenBLAS for three kinds of processor (SSE, AVX2,
# AVX-512) at the size of ``--quick``: losses differ by at most 0.06 %, accuracies by 0.001, mean
# iterations by 0.07; the tolerances are 10 times that or more.
_TRAINED, _RIGHT = Tolerance(0.01, 0.001), Tolerance(0, 0, 0.01)


def _default_test_size(settings: AccuracySettings) -> int:
    if not settings.own_file:
        return _TEST
    law = settings.law()
    law.check()
    return max(2, law.shape(None)[0] // 5)


@dataclass(frozen=True, kw_only=True)
class AccuracySettings(TrainingSettings, SourceSettings, DeqSettings):
    """Settings of ``deqcli accuracy``."""

    act: str = with_default(DeqSettings, "act", "relu")
    sigma_a2: float = with_default(DeqSettings, "sigma_a2", 0.2)
    data: str = with_default(SourceSettings, "data", "mnist")
    p: int | None = with_default(SampleSettings, "p", None)
    train_size: int = setting(
        None, "Training samples, the same number of each class; 0: all.", least=0,
        derive=lambda settings: 0 if settings.own_file else _TRAINING, metavar="N",
        default_text="5000; of your file, all the rest",
    )  # fmt: skip
    test_size: int = setting(
        None, "Test samples; 0: all.", least=0, derive=_default_test_size, metavar="N",
        default_text="4000; of your file, a fifth",
    )  # fmt: skip
    widths: tuple[int, ...] = setting(
        (32, 64, 128, 256, 512, 1024),
        "Neurons of each layer, separated by commas (the papers: to 8192).",
        least=1, metavar="M,…",
    )  # fmt: skip
    nets: tuple[Net, ...] = setting(
        tuple(Net),
        "Networks: the DEQ; the explicit one that 'deqcli match' finds for it; one of that depth "
        "with the DEQ's own activation.",
    )
    match: Kernel = kernel_setting(Kernel.CK, "Kernel that the matched network shares with the DEQ")
    trials: int = setting(
        3, "Trainings of each network, with other weights and batches.", least=1, most=10_000
    )
    solver: Solver = setting(Solver.GAUSS_SEIDEL, "Fixed-point iteration of the DEQ.")
    tolerance: float = setting(1e-3, "Relative residual of the fixed point.", least=1e-6, below=1)
    limit: bool = setting(
        False,
        "Add each network's limit of infinite width: ridge regression with its exact CK and NTK. "
        "Takes 16 train-size (train-size + test-size) bytes.",
    )
    ridge: float = setting(
        1e-3, "Ridge of the limits, in units of the kernel's mean diagonal.", least=0
    )

    def check(self) -> None:
        super().check()
        if self.law(self.p).n_classes == 1:
            culprit = (
                f"`classes` is {self.classes[0]}" if self.classes else f"`data` is {self.data}"
            )
            raise InputError(f"{culprit}; without two classes there is nothing to learn.")

    def unused(self) -> Collection[str]:
        return {*super().unused(), *(() if self.limit else ("ridge",))}

    @property
    def n(self) -> int | None:
        """Training samples to ask for; None for all that the test samples leave."""
        return self.train_size or (_DRAWN if self.drawn else None)


@dataclass(frozen=True)
class Prepared:
    """Training and test samples, and the networks chosen for them."""

    settings: AccuracySettings
    data: Dataset
    test: Dataset
    nets: Trio


class Accuracy(Study[AccuracySettings, Prepared]):
    """Train a DEQ, its matched explicit network and a plain one, side by side.

    Draws test accuracy against width (blue the DEQ, red its match, green the plain network), the
    gaps DEQ - matched and DEQ - plain with standard errors over trials, and seconds per epoch.
    The CSV has a row for every epoch; all of it but the measured seconds is the same whenever
    the run is made again.

    The default, 5000 samples of MNIST at widths up to 1024, takes some 6 minutes on two cores.
    """

    # What the papers leave open is settled so. All weights are trained, in the parametrisation of
    # theory.md §1, with the same settings for all networks (deqcli.training.base). All
    # points have the same samples; in one trial all networks see them in the same order and, at
    # one width, share the draws of their input and readout weights, which takes that noise out of
    # the gaps. tau0^2 is the mean squared norm of the training samples, the variance that the
    # first layer sees; the mean within-class variance, the same for mixtures in high dimension, is
    # 0.6 to 0.8 of it on images and gives twins two to three times as far off. The accuracy is
    # that after the last epoch: none is chosen by looking at the test samples. The learning rate 4
    # is the largest power of two at which every network trains at every width on MNIST (at 8 the
    # twin overflows at width 32).

    name = "accuracy"
    settings = AccuracySettings
    examples = (
        "",
        "--data fashion-mnist --limit",
        "--data gmm --classes 3 --act tanh --widths 32,128,512",
        "--data my-samples.npz --nets deq,matched",
    )
    quick = {"widths": 256, "train_size": 2000, "test_size": 1000, "epochs": 10, "trials": 2}
    # Only what would take hours on two cores.
    standard = {"widths": 1024}
    tolerances = {
        "train_loss": _TRAINED,
        "test_loss": _TRAINED,
        "train_accuracy": _RIGHT,
        "test_accuracy": _RIGHT,
        "iterations": Tolerance(0, 0, 1),
    }
    # The last residual of a solve only has to be below its tolerance.
    ignored = frozenset({*TIMES, "residual"})

    def prepare(self, settings: AccuracySettings) -> Prepared:
        import numpy as np

        from deqcli.training.loop import check_batch
        from deqcli.training.trio import trio

        # Samples depend on the seed and on no trial.
        try:
            data, test = settings.law(settings.p).load_halves(
                self.data_streams(settings), settings.n, settings.test_size
            )
        except InputError as error:
            # What is the number of samples elsewhere has another name here.
            raise type(error)(str(error).replace("`n`", "`train_size`")) from error
        check_batch(settings.batch, data.n_samples)
        tau0 = float(np.sqrt(np.mean(np.sum(data.X**2, axis=1))))
        nets = trio(settings.act, settings.sigma_a2, settings.sigma_b2, tau0, settings.match)
        if Net.MATCHED in settings.nets:
            nets.require_twin()
        return Prepared(settings, data, test, nets)

    def points(self, settings: AccuracySettings) -> dict[str, tuple[Any, ...]]:
        """Return the widest first, so that the last ones to finish are short."""
        points: dict[str, tuple[Any, ...]] = {
            key: (net, 0, 0, kernel) for key, net, kernel in _limits(settings)
        }
        for width in reversed(settings.widths):
            for net in settings.nets:
                for trial in range(settings.trials):
                    points[_key(net, width, trial)] = (net, width, trial)
        return points

    def memory(self, settings: AccuracySettings) -> int:
        from deqcli.runs.memory import peak

        law = settings.law(settings.p)
        n, p = law.shape(settings.n)
        q, m = settings.test_size or n, max(settings.widths)
        # Twice the kernels themselves, for what finds and factorises them.
        kernels = 16 * n * (n + q) if settings.limit else 0
        history = 80 if settings.solver == Solver.ANDERSON else 20
        network = 8 * m * (m + p) + history * m * settings.batch
        if settings.train == "readout":
            network += 4 * m * (n + q)
        return peak(
            loading=law.loading(settings.n, settings.test_size),
            held=12 * (n + q) * p,  # in double and, for the networks, in single precision
            work=max(kernels, network),
        )

    def compute(
        self, prepared: Prepared, net: Net, width: int, trial: int, kernel: Kernel | None = None
    ) -> Arrays:
        """Train one network; or, if a kernel is named, find the limit of its kind."""
        import numpy as np

        from deqcli.training.loop import train

        settings, data, test = prepared.settings, prepared.data, prepared.test
        if kernel is not None:
            return _limit(prepared, net, kernel)
        network = prepared.nets.network(
            net,
            width,
            data.X.shape[1],
            data.n_classes,
            solver=settings.solver,
            tolerance=settings.tolerance,
        )
        network.draw(self._streams(settings, network, net, width, trial))
        history = train(network, data, test, settings, self.stream(settings, "order", trial))
        epochs = len(history.status)
        return history.arrays() | {
            "failure": np.array(history.failure),
            "epoch": np.arange(epochs),
            "parameters": np.full(epochs, network.size),
            "peak_memory": np.full(epochs, history.nbytes),
        }

    def _streams(
        self, settings: AccuracySettings, network: Network, net: Net, width: int, trial: int
    ) -> list[np.random.Generator]:
        """Return a stream for each parameter; only the inner ones know the network's name."""
        inner = [(net.value, number) for number in range(len(network.parameters) - 2)]
        names: list[tuple[str | int, ...]] = [("input",), *inner, ("readout",)]
        return [self.stream(settings, "weights", width, trial, *name) for name in names]

    def assemble(self, prepared: Prepared, load: Load) -> Assembled:
        """Make the table, one row an epoch, and the gaps at each width.

        A limit is a row whose net is ``<net>-<kernel>-limit``, width and epoch 0; a kernel
        classifier has neither cross-entropy nor iterations, weights and times, and these cells are
        empty. A network that fails before any training has no row, and is named in the findings.
        """
        import pandas as pd

        from deqcli.paired import STOPPED, gaps
        from deqcli.training.loop import DONE

        settings = prepared.settings
        parts: list[pd.DataFrame] = []
        stopped: dict[str, str] = {}
        trials = range(settings.trials)
        for net, width, trial in product(settings.nets, settings.widths, trials):
            key = _key(net, width, trial)
            columns = load(key)
            end = str(columns.pop("failure")) or str(columns["status"][-1])
            if end.startswith(STOPPED):
                stopped[key] = end
            parts.append(pd.DataFrame(columns).assign(net=net.value, width=width, trial=trial))
        for key, net, kernel in _limits(settings):
            row = pd.DataFrame(load(key)).assign(width=0, trial=0, epoch=0, status=DONE)
            parts.append(row.assign(net=f"{net}-{kernel}-limit"))
        table = pd.concat(parts, ignore_index=True).assign(dataset=settings.data)
        # Whole numbers stay whole beside the empty cells of limits, and text is text even of no
        # row.
        table = table.astype({"parameters": "Int64", "peak_memory": "Int64", "status": object})
        table = table.reindex(columns=list(COLUMNS))
        return Assembled(
            table,
            {
                "gaps": gaps(table).to_dict("records"),
                "stopped": stopped,
                "projected_epochs": int((table["status"] == "projected").sum()),
                "twin": prepared.nets.twin.as_record(),
                "plain": [{"name": a.name, "shift": a.shift} for a in prepared.nets.plain],
                "details": dict(prepared.data.details),
            },
        )

    def sentences(self, findings: Mapping[str, Any]) -> Iterable[str]:
        gaps = findings["gaps"]
        widest = max((gap["width"] for gap in gaps), default=0)
        for gap in gaps:
            if gap["width"] == widest:
                error = gap["standard_error"]
                spread = "" if error is None else f" +- {100 * error:.2f}"
                yield (
                    f"width {gap['width']}: DEQ - {gap['net']} = {100 * gap['mean']:.2f}{spread} "
                    "points of test accuracy"
                )

    def shortcomings(self, findings: Mapping[str, Any]) -> Sequence[str]:
        return [f"{key}: {status}" for key, status in findings["stopped"].items()]

    def quantities(self, settings: AccuracySettings) -> Sequence[Quantity]:
        claim = Claim("> 0: only the twin follows", least=0.0)
        size = ("train_size", "test_size", "epochs")
        return (
            Quantity("accuracy", "DEQ at the largest width, % right", _accuracy, remark=_at_width),
            Quantity(
                "matched",
                "DEQ − twin at the largest width, points",
                partial(_gap, net=Net.MATCHED),
                remark=_at_width,
            ),
            Quantity(
                "plain",
                "DEQ − plain at the largest width, points",
                partial(_gap, net=Net.PLAIN),
                remark=_at_width,
            ),
            Quantity(
                "advantage",
                "how much farther from the DEQ the plain network is than the twin, points",
                _advantage, claim, needs=size, remark=_at_width,
            ),
        )  # fmt: skip


def _key(net: Net, width: int, trial: int) -> str:
    return f"{net} width={width} trial={trial}"


def _limits(settings: AccuracySettings) -> Iterator[tuple[str, Net, Kernel]]:
    for net in settings.nets if settings.limit else ():
        for kernel in LIMITS:
            yield f"{net} limit {kernel}", net, kernel


def _limit(prepared: Prepared, net: Net, kernel: Kernel) -> Arrays:
    """Return the accuracies of kernel regression, which infinite width amounts to."""
    import numpy as np

    from deqcli.classify import classify

    data, test, nets = prepared.data, prepared.test, prepared.nets
    matrices = nets.kernel(net, kernel, data.X), nets.kernel(net, kernel, test.X, data.X)
    right = classify(matrices[0], data.y, matrices[1], test.y, prepared.settings.ridge)
    names = "train_accuracy", "test_accuracy"
    return {name: np.array([value]) for name, value in zip(names, right, strict=True)}


def _at_largest_width(run: Finished) -> pd.DataFrame:
    """Return final accuracies in percent at the largest width: a row a trial."""
    from deqcli.paired import accuracies

    final = 100 * accuracies(run.table)
    return final[final.index.get_level_values("width") == run.table["width"].max()]


def _mean(values: pd.Series) -> Measured:
    if values.empty:
        raise InputError("no training at the largest width reached its end")
    return mean_interval(values.tolist())


def _accuracy(run: Finished) -> Measured:
    return _mean(_at_largest_width(run)[Net.DEQ].dropna())


def _gap(run: Finished, net: Net) -> Measured:
    final = _at_largest_width(run)
    return _mean((final[Net.DEQ] - final[net]).dropna())


def _advantage(run: Finished) -> Measured:
    """Return by how much the plain network's gap is larger than the twin's, in points.

    The gaps are those of the means; the spread is that of the differences of the two within one
    trial, which share samples, order and weights.
    """
    import numpy as np

    final = _at_largest_width(run).dropna()
    plain, twin = (final[Net.DEQ] - final[net] for net in (Net.PLAIN, Net.MATCHED))
    return _mean(np.sign(plain.mean()) * plain - np.sign(twin.mean()) * twin)


def _at_width(run: Finished) -> str:
    return f"At width {run.table['width'].max()}, the largest of this run."


STUDY = Accuracy()
