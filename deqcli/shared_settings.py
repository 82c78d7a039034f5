"""Groups of settings that several studies share, each option defined once.

Nothing heavy is imported here until settings are made; see :mod:`deqcli.settings`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deqcli.checks import LARGEST, SMALLEST
from deqcli.errors import InputError
from deqcli.settings import Settings, setting
from deqcli.vocabulary import ACTIVATIONS, DRAWN, Kernel, Solver, Weights

if TYPE_CHECKING:
    from deqcli.data.laws import Law
    from deqcli.models import Model
    from deqcli.monte_carlo import Ensemble

#: Which fields of :class:`SourceSettings` each law of the samples reads.
_USED = {"gmm": {"classes", "mean_norm", "covariance", "p", "ratio"}, "sphere": {"p", "ratio"}}
_USED_BY_REAL_DATA = {"classes", "select", "preprocess", "data_dir"}
LAW_FIELDS = _USED["gmm"] | _USED["sphere"] | _USED_BY_REAL_DATA


def adopt_activations(acts: Any, folder: Path) -> Any:
    """Return the texts of activations; see :attr:`deqcli.settings.Rule.adopt`."""
    from deqcli.activations import named

    return named(acts)


def _adopt_samples(samples: Any, folder: Path) -> Any:
    if isinstance(samples, str | Path):
        return str(samples)
    from deqcli.data.files import save

    return str(save(samples, folder))


@dataclass(frozen=True, kw_only=True)
class SeedSettings(Settings):
    """The seed."""

    seed: int = setting(0, "Seed of all random streams.", least=0)


@dataclass(frozen=True, kw_only=True)
class SourceSettings(SeedSettings):
    """Where samples come from."""

    data: str = setting(
        "gmm",
        "Samples: the papers' Gaussian mixture, the unit sphere, a data set of 'deqcli data list', "
        "or a .npz/.csv file of your own (arrays X, y).",
        metavar="gmm|sphere|NAME|FILE",
        adopt=_adopt_samples,
    )
    classes: tuple[str, ...] | None = setting(
        None,
        "How many classes the mixture has, or which labels of real data (6,8).",
        metavar="K|LABELS",
        default_text="2; all",
    )
    mean_norm: float = setting(8.0, "Norm of the mixture's means.", least=0, most=LARGEST)
    covariance: str = setting(
        "papers",
        "Covariances of the mixture; papers: (1 + 8(a-1)/sqrt(p)) I.",
        metavar="papers|identity|toeplitz:R",
    )
    select: str = setting(
        "random",
        "Which samples of real data: drawn by the seed, or the first of each class.",
        choices=("random", "first"),
    )
    preprocess: str = setting(
        "centred",
        "Real data: centred by the global mean and scaled to mean squared norm 1; centred and each "
        "sample scaled to norm 1; as it is.",
        choices=("centred", "unit", "raw"),
    )
    data_dir: str | None = setting(
        None,
        "Folder of the data sets.",
        identity=False,
        environment="DEQCLI_DATA_DIR",
        default_text="deqcli in the user's cache",
        metavar="FOLDER",
    )

    @property
    def drawn(self) -> bool:
        """Whether samples are drawn, so that their number and dimension are free."""
        return self.data in DRAWN

    @property
    def on_sphere(self) -> bool:
        """Whether samples lie on the unit sphere, where activations are not centred (HLD)."""
        return self.data == "sphere"

    @property
    def own_file(self) -> bool:
        """Whether the samples are those of a person's file."""
        return self.data.lower().endswith((".npz", ".csv"))

    @property
    def source(self) -> str:
        """What tables call the samples: a file by its name, without its folder."""
        return Path(self.data).name if self.own_file else self.data

    def law(self, p: int | None = None) -> Law:
        """Return the law of the samples; drawn ones have ``p`` dimensions."""
        from deqcli.data.laws import Mixture, RealData, Sphere

        if self.data == "gmm":
            return Mixture(p or 0, self.classes, self.mean_norm, self.covariance)
        if self.on_sphere:
            return Sphere(p or 0, self.classes)
        if p is not None:
            raise InputError(f"`p` is {p}; the data {self.data!r} has its own dimension.")
        return RealData(self.data, self.classes, self.select, self.preprocess, self.data_dir)

    def check(self) -> None:
        """See :meth:`Settings.check`."""
        super().check()
        self.law(getattr(self, "p", None)).check()

    def unused(self) -> Collection[str]:
        """See :meth:`Settings.unused`."""
        return {*super().unused(), *(LAW_FIELDS - _USED.get(self.data, _USED_BY_REAL_DATA))}

    def inputs(self) -> dict[str, Any]:
        """Return the checksum of a person's file, which may change under its name."""
        return self.law(getattr(self, "p", None)).identity()

    def identity(self) -> dict[str, Any]:
        """See :meth:`Settings.identity`; a file counts by its name and content, not its folder."""
        values = super().identity()
        return {**values, "data": self.source} if self.own_file else values


@dataclass(frozen=True, kw_only=True)
class SampleSettings(SourceSettings):
    """One set of samples: where they come from and how many."""

    n: int | None = setting(
        None, "Number of samples.", least=2, default_text="800; all of a real data set",
        metavar="N", derive=lambda settings: 800 if settings.drawn else None,
    )  # fmt: skip
    p: int | None = setting(
        None, "Dimension of drawn samples.", least=2, metavar="P", default_text="1000",
        derive=lambda settings: 1000 if settings.drawn else None,
    )  # fmt: skip

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and their dimension; real data is asked for what it has."""
        return self.law(self.p).shape(self.n)


@dataclass(frozen=True, kw_only=True)
class DeqSettings(Settings):
    """A deep equilibrium model."""

    act: str = setting(
        "tanh",
        "Activation: a name of 'deqcli list activations', with parameters as in htanh:a=1,c=2, or "
        "a function of your own as package.module:function.",
        suggestions=ACTIVATIONS,
        metavar="NAME",
        adopt=adopt_activations,
    )
    sigma_a2: float = setting(0.1, "Variance of the hidden weights A.", least=0, most=LARGEST)
    sigma_b2: float = setting(
        None, "Variance of the input weights B.", least=SMALLEST, most=LARGEST,
        derive=lambda settings: 1 - settings.sigma_a2, default_text="1 - sigma-a2",
    )  # fmt: skip

    def check(self) -> None:
        """See :meth:`Settings.check`; the equilibrium must exist."""
        from deqcli.activations import activation
        from deqcli.gaussian import check_existence

        super().check()
        # The papers ask for a smaller sigma_a2 than existence, but not on the sphere.
        papers_range = not getattr(self, "on_sphere", False)
        check_existence(
            activation(self.act), self.sigma_a2, self.sigma_b2, papers_range=papers_range
        )


def kernel_setting(default: Kernel, purpose: str = "Kernel of the DEQ") -> Any:
    """Return the field that chooses one of the four kernels."""
    return setting(
        default,
        f"{purpose}; ck: of the features (ICML's G*); preactivation-ck: HLD's and ICLR's G*; ntk: "
        "of the network with all weights trained; preactivation-ntk: HLD's and ICLR's K*.",
    )


@dataclass(frozen=True, kw_only=True)
class MonteCarloSettings(Settings):
    """Random networks of finite width to average over."""

    realizations: int = setting(400, "Random networks to average.", least=1, most=100_000)
    width: int = setting(1000, "Neurons of each (the papers give none).", least=1)
    weights: Weights = setting(
        Weights.GAUSSIAN, "Law of the weights; the limit does not depend on it."
    )
    solver: Solver = setting(Solver.GAUSS_SEIDEL, "Fixed-point iteration.")
    # A residual of 5e-4 biases the average of 400 by a 37th to a 1800th of its sampling error, in
    # operator norm: CK and NTK, tanh and relu at 0.1, relu and htanh at 0.2, n = 800, width 1000.
    # The kinked NTK is the worst, where the bias goes like the root of the residual.
    tolerance: float = setting(
        None, "Relative residual of the fixed point.", least=4.8e-7, below=1,
        derive=lambda settings: min(max(0.2 / settings.realizations, 1e-6), 1e-3),
        default_text="0.2 / realizations, between 1e-6 and 1e-3",
    )  # fmt: skip

    #: The fields that matter only where kernels are averages.
    MONTE_CARLO = frozenset({"realizations", "width", "weights", "solver", "tolerance"})

    def averaging_bytes(self, n: int, p: int, kernel: Kernel) -> int:
        """Return the bytes that averages over networks take, for n samples of dimension p."""
        m, adjoint = self.width, kernel.explicit is Kernel.NTK
        # Bias and value of a fixed point; those of the adjoint; Anderson's former iterates.
        states = 10 if self.solver == Solver.ANDERSON else 4 if adjoint else 2
        # Single precision for the network and one kernel. Double for the kernels that lead to the
        # one asked for (each is made from those before it in the list), the inputs', the sum, and
        # the sum of the point before.
        kernels = 4 + list(Kernel).index(kernel)
        return 4 * (m * (m + p + states * n) + n * p + n * n) + 8 * kernels * n * n

    def ensemble(self, model: Model, kernel: Kernel) -> Ensemble:
        """Return the random networks of a model, to be averaged over for one kernel."""
        from deqcli.monte_carlo import Ensemble

        return Ensemble(
            model.act,
            model.sigma_a2,
            model.sigma_b2,
            width=self.width,
            weights=self.weights,
            kernels=(kernel,),
            solver=self.solver,
            tolerance=self.tolerance,
        )
