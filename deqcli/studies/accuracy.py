"""Train the DEQ, its matched twin and a plain network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from deqcli.accuracy_settings import FITTED_SAMPLES, AccuracySettings
from deqcli.errors import InputError
from deqcli.study import Assembled, Study, Tolerance
from deqcli.vocabulary import Net, Solver

if TYPE_CHECKING:
    import pandas as pd

    from deqcli.data.dataset import Dataset
    from deqcli.quantities import Quantity
    from deqcli.study import Arrays, Load
    from deqcli.training.base import Network
    from deqcli.training.scale import Scale
    from deqcli.training.trio import Trio

COLUMNS = (
    "dataset", "act", "sigma_a2", "train", "net", "width", "trial", "epoch", "train_loss",
    "train_accuracy", "test_loss", "test_accuracy", "forward_seconds", "backward_seconds",
    "iterations", "residual", "parameters", "peak_memory", "status",
)  # fmt: skip
#: Measured times: the only columns that differ when the same run is made again.
TIMES = ("forward_seconds", "backward_seconds")

# Training magnifies rounding. Measured with OpenBLAS for three kinds of processor (SSE, AVX2,
# AVX-512) at the size of ``--quick``: losses differ by at most 0.06 %, accuracies by 0.001, mean
# iterations by 0.07; the tolerances are 10 times that or more.
_TRAINED, _RIGHT = Tolerance(0.01, 0.001), Tolerance(0, 0, 0.01)


@dataclass(frozen=True)
class Prepared:
    """Training and test samples, the networks chosen for them, and what scales them."""

    settings: AccuracySettings
    data: Dataset
    test: Dataset
    nets: Trio
    scales: Mapping[Net, Scale]


class Accuracy(Study[AccuracySettings, Prepared]):
    """Train a DEQ, its matched explicit network and a plain one, side by side.

    Draws the training loss over the DEQ's along the epochs and its mean against width, test
    accuracy and its difference from the DEQ's (blue the DEQ, red its match, green the plain
    network; 95 % intervals by Student's t over trials), the share of epochs in which the DEQ's norm
    was clipped, and seconds per epoch. What theory predicts for infinite width stands beside it.
    The CSV has a row for every epoch; all of it but the measured seconds is the same whenever
    the run is made again. The default is 5000 samples of MNIST at widths up to 1024.
    """

    # What the papers leave open is settled so. All weights are trained, in the parametrisation of
    # theory.md §1, with the same settings for all networks (deqcli.training.base) but for their
    # scale (deqcli.training.scale). All points have the same samples; in one trial all networks see
    # them in the same order and, at one width, share the draws of their input and readout weights,
    # which takes that noise out of the differences. tau0^2 is the mean squared norm of the training
    # samples, the variance that the first layer sees; the mean within-class variance, the same for
    # mixtures in high dimension, is 0.6 to 0.8 of it on images and gives twins two to three times
    # as far off. The accuracy is that after the last epoch: none is chosen by looking at the test
    # samples. At the learning rate 1, over 20 epochs, the DEQ's norm is clipped at widths 32 and 64
    # only; at 4 it is at every width up to 128, and then what is compared is no longer the DEQ.

    name = "accuracy"
    version = 2
    constants = {
        (): ("dataset", "act", "sigma_a2", "train", "deq_regression_accuracy"),
        ("net", "width", "trial"): ("parameters", "peak_memory"),
    }
    digits = 9
    settings = AccuracySettings
    duration = "about 15 minutes"
    examples = (
        "",
        "--data fashion-mnist --train readout",
        "--data gmm --classes 3 --act tanh --widths 32,128,512",
        "--data my-samples.npz --nets deq,matched",
    )
    quick = {"widths": 256, "train_size": 2000, "test_size": 1000, "epochs": 10, "trials": 3}
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
        from deqcli.training.loop import check_batch
        from deqcli.training.scale import Scale, equal_scale
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
        if settings.twin == "data" and data.n_samples < FITTED_SAMPLES:
            raise InputError(
                f"there are {data.n_samples} training samples, and a twin is fitted on at least "
                f"{FITTED_SAMPLES}; raise `train_size`, or take `twin` scalars."
            )
        nets = trio(
            settings.act, settings.sigma_a2, settings.sigma_b2, data.X, settings.kernel,
            twin=settings.twin, plain_layers=settings.plain_layers, seed=settings.seed,
        )  # fmt: skip
        if Net.MATCHED in settings.nets:
            nets.require_twin()
        equal = settings.scale == "equal"
        scales = {
            net: equal_scale(nets, net, data.X, settings.train) if equal else Scale()
            for net in settings.nets
        }
        return Prepared(settings, data, test, nets, scales)

    def points(self, settings: AccuracySettings) -> dict[str, tuple[Any, ...]]:
        """Return the widest first, so that the last ones to finish are short."""
        points: dict[str, tuple[Any, ...]] = {}
        for width in reversed(settings.widths):
            for net in settings.nets:
                for trial in range(settings.trials):
                    points[_key(net, width, trial)] = (net, width, trial)
        if settings.limit == "regression":
            points[_REGRESSION] = (Net.DEQ,)
        return points | {_limit_key(net): (net,) for net in _limits(settings)}

    def memory(self, settings: AccuracySettings) -> int:
        from deqcli.runs.memory import peak

        law = settings.law(settings.p)
        n, p = law.shape(settings.n)
        q, m = settings.test_size or n, max(settings.widths)
        # The kernel, and the samples it is made of once more.
        limits = 4 * n * (n + q) + 8 * (n + q) * p if _limits(settings) else 0
        if settings.limit == "regression":
            from deqcli.kernel_ridge import ridge_bytes

            limits = ridge_bytes(n, p)
        history = 80 if settings.solver == Solver.ANDERSON else 20
        network = 8 * m * (m + p) + history * m * settings.batch
        if settings.train == "readout":
            network += 4 * m * (n + q)
        return peak(
            loading=law.loading(settings.n, settings.test_size),
            held=12 * (n + q) * p,  # in double and, for the networks, in single precision
            work=max(limits, network),
        )

    def compute(
        self, prepared: Prepared, net: Net, width: int | None = None, trial: int = 0
    ) -> Arrays:
        """Train one network; or, if no width is given, its limit in all trials."""
        import numpy as np

        from deqcli.training.loop import train

        settings, data, test = prepared.settings, prepared.data, prepared.test
        if width is None:
            limit = self._regress if settings.limit == "regression" else self._compute_limit
            return limit(prepared, net)
        network = self._network(prepared, net, width, trial)
        history = train(network, data, test, settings, self.stream(settings, "order", trial))
        epochs = len(history.status)
        return history.arrays() | {
            "failure": np.array(history.failure),
            "epoch": np.arange(epochs),
            "parameters": np.full(epochs, network.size),
            "peak_memory": np.full(epochs, history.nbytes),
        }

    def _network(self, prepared: Prepared, net: Net, width: int, trial: int) -> Network:
        """Return a network with its weights drawn, from a stream for each parameter."""
        settings, data, scale = prepared.settings, prepared.data, prepared.scales[net]
        network = prepared.nets.network(
            net,
            width,
            data.X.shape[1],
            data.n_classes,
            solver=settings.solver,
            tolerance=settings.tolerance,
        )
        network.rescale(scale.gain, scale.rate)
        # Only the inner streams know the network's name.
        inner = [(net.value, number) for number in range(len(network.parameters) - 2)]
        names: list[tuple[str | int, ...]] = [("input",), *inner, ("readout",)]
        network.draw([self.stream(settings, "weights", width, trial, *name) for name in names])
        return network

    def _compute_limit(self, prepared: Prepared, net: Net) -> Arrays:
        """Train a limit, from the outputs with which the widest networks of each trial start."""
        from deqcli.training.linearised import train_limits
        from deqcli.training.scale import deciding_kernel

        settings, nets, trials = prepared.settings, prepared.nets, range(prepared.settings.trials)
        kernel = deciding_kernel(settings.train)
        return train_limits(
            (self._network(prepared, net, max(settings.widths), trial) for trial in trials),
            lambda X, Y: nets.single_precision_kernel(net, kernel, X, Y),
            prepared.scales[net],
            prepared.data,
            prepared.test,
            settings,
            [self.stream(settings, "order", trial) for trial in trials],
        )

    def _regress(self, prepared: Prepared, net: Net) -> Arrays:
        """Train the limit of the DEQ to the end by least squares."""
        import numpy as np

        from deqcli.kernel_ridge import fit_kernel_ridge
        from deqcli.training.scale import deciding_kernel

        nets, data, test = prepared.nets, prepared.data, prepared.test
        fit = fit_kernel_ridge(
            data.X, np.eye(data.n_classes)[data.y] - 1 / data.n_classes, nets.act, nets.sigma_a2,
            nets.sigma_b2, kernel=deciding_kernel(prepared.settings.train),
        )  # fmt: skip
        right = fit.outputs(test.X).argmax(axis=1) == test.y
        residual = np.nan if fit.residual is None else fit.residual
        return {"accuracy": np.array(np.mean(right)), "residual": np.array(residual)}

    def assemble(self, prepared: Prepared, load: Load) -> Assembled:
        """Make the table, one row an epoch, and the differences at each width.

        A limit's rows have the net ``<net>-limit`` and the width 0; it has no iterations, weights
        and times, and these cells are empty. A network that fails before any training has no row,
        and is named in the findings.
        """
        import pandas as pd

        from deqcli import paired
        from deqcli.predicted import errors_of_trio

        settings = prepared.settings
        parts: list[pd.DataFrame] = []
        stopped: dict[str, str] = {}
        trials = range(settings.trials)
        for net, width, trial in product(settings.nets, settings.widths, trials):
            key = _key(net, width, trial)
            columns = load(key)
            end = str(columns.pop("failure")) or str(columns["status"][-1])
            if end.startswith(paired.STOPPED):
                stopped[key] = end
            parts.append(pd.DataFrame(columns).assign(net=net.value, width=width, trial=trial))
        for net in _limits(settings):
            rows = pd.DataFrame(load(_limit_key(net)))
            parts.append(rows.assign(net=f"{net}{paired.LIMIT}", width=paired.INFINITE))
        table = pd.concat(parts, ignore_index=True).assign(
            dataset=settings.source, act=settings.act, sigma_a2=settings.sigma_a2,
            train=settings.train,
        )  # fmt: skip
        # Whole numbers stay whole beside the empty cells of limits, text is text even of no row.
        table = table.astype({"parameters": "Int64", "peak_memory": "Int64", "status": object})
        table = table.reindex(columns=list(COLUMNS))
        # Nobody needs nine digits of a measured time.
        for name in self.ignored:
            table[name] = table[name].map("{:.3g}".format).astype(float)
        if predicted := errors_of_trio(prepared.nets, prepared.data, settings):
            names = table["net"].str.removesuffix(paired.LIMIT)
            table["predicted_accuracy"] = 1 - names.map(predicted)
        regression = _regression(settings, load)
        if regression:
            table["deq_regression_accuracy"] = regression["accuracy"]
        gaps = paired.gaps(table)
        limits = gaps["width"] == paired.INFINITE
        return Assembled(
            table,
            {
                "kernel": settings.kernel.value,
                "gaps": gaps[~limits].to_dict("records"),
                "predicted": gaps[limits].to_dict("records"),
                "advantages": paired.advantages(table),
                "resolution": paired.resolution(table),
                "clipped": paired.clipped(table).reset_index().to_dict("records"),
                "regression": regression,
                "stopped": stopped,
                "scales": {net.value: vars(scale) for net, scale in prepared.scales.items()},
                "twin": prepared.nets.twin.as_record(),
                "plain": [{"name": a.name, "shift": a.shift} for a in prepared.nets.plain],
                "details": dict(prepared.data.details),
            },
        )

    def sentences(self, findings: Mapping[str, Any]) -> Iterable[str]:
        from deqcli.paired_quantities import sentences

        return sentences(findings)

    def shortcomings(self, findings: Mapping[str, Any]) -> Sequence[str]:
        return [f"{key}: {status}" for key, status in findings["stopped"].items()]

    def quantities(self, settings: AccuracySettings) -> Sequence[Quantity]:
        from deqcli.paired_quantities import QUANTITIES

        return QUANTITIES


_REGRESSION = "deq regression"


def _key(net: Net, width: int, trial: int) -> str:
    return f"{net} width={width} trial={trial}"


def _limit_key(net: Net) -> str:
    return f"{net} limit"


def _regression(settings: AccuracySettings, load: Load) -> dict[str, Any] | None:
    """Return what least squares made of the limit, if it was asked for."""
    if settings.limit != "regression":
        return None
    from deqcli.training.scale import deciding_kernel

    found = {name: float(value) for name, value in load(_REGRESSION).items()}
    residual = None if found["residual"] != found["residual"] else found["residual"]
    kernel = deciding_kernel(settings.train).value
    return {"kernel": kernel, "accuracy": found["accuracy"], "residual": residual}


def _limits(settings: AccuracySettings) -> tuple[Net, ...]:
    return settings.nets if settings.limit == "linearised" else ()


STUDY = Accuracy()
