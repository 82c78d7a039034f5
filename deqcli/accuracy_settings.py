"""Settings of ``deqcli accuracy``: what is trained, on what, and which networks are compared."""

from __future__ import annotations

from dataclasses import dataclass

from deqcli.errors import InputError
from deqcli.settings import setting, with_default
from deqcli.shared_settings import DeqSettings, SampleSettings, SourceSettings
from deqcli.training.settings import TrainingSettings
from deqcli.vocabulary import Kernel, Net, Solver

_TRAINING, _TEST, _DRAWN = 5000, 4000, 800
#: Training samples from which on twins can be fitted to them.
FITTED_SAMPLES = 20
#: Training samples up to which limits are trained unless told otherwise; their kernel is n × n.
_LIMIT_SAMPLES = 10_000


def _default_test_size(settings: AccuracySettings) -> int:
    if not settings.own_file:
        return _TEST
    law = settings.law()
    law.check()
    return max(2, law.shape(None)[0] // 5)


def _default_twin(settings: AccuracySettings) -> str:
    return "data" if _samples(settings) >= FITTED_SAMPLES else "scalars"


def _default_limit(settings: AccuracySettings) -> str:
    return "linearised" if _samples(settings) <= _LIMIT_SAMPLES else "none"


def _samples(settings: AccuracySettings) -> int:
    law = settings.law(settings.p)
    law.check()
    return law.shape(settings.n)[0]


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
        "Networks: the DEQ; the explicit one that 'deqcli match' finds for it; a plain one with "
        "the DEQ's own activation.",
    )
    plain_layers: int | None = setting(
        None, "Hidden layers of the plain network.", least=1, most=10,
        default_text="as many as the matched one has",
    )  # fmt: skip
    match: str = setting(
        "auto",
        "Kernel that the matched network shares with the DEQ; auto: the one by which wide networks "
        "learn, ck for the readout and ntk for all weights. The names are those of 'deqcli match'.",
        choices=("auto", *(kernel.value for kernel in Kernel)),
    )
    twin: str = setting(
        None,
        "How the matched network is found; data: fitted to the DEQ's kernel on the training "
        "samples; scalars: by the theory's four scalars, as for samples of high dimension.",
        choices=("data", "scalars"), derive=_default_twin,
        default_text=f"data; below {FITTED_SAMPLES} training samples, scalars",
    )  # fmt: skip
    scale: str = setting(
        "equal",
        "equal: multiply each explicit network's outputs and learning rate so that its outputs at "
        "the start have the DEQ's mean variance and the kernel by which it learns the DEQ's mean "
        "diagonal; own: as they are.",
        choices=("equal", "own"),
    )
    trials: int = setting(
        6, "Trainings of each network, with other weights and batches.", least=1, most=10_000
    )
    solver: Solver = setting(Solver.GAUSS_SEIDEL, "Fixed-point iteration of the DEQ.")
    tolerance: float = setting(1e-3, "Relative residual of the fixed point.", least=1e-6, below=1)
    limit: str = setting(
        None,
        "linearised: train each network's limit of infinite width too, by its exact kernel on the "
        "same batches: the differences that theory predicts. Takes 4 train-size (train-size + "
        "test-size) bytes. regression: only say how well the DEQ's limit classifies when it is "
        "trained to the end by least squares, with a ridge of 1e-3 of its kernel's mean diagonal; "
        "on as many samples as a data set has.",
        choices=("linearised", "regression", "none"), derive=_default_limit,
        default_text=f"linearised up to {_LIMIT_SAMPLES} training samples, none beyond",
    )  # fmt: skip

    def check(self) -> None:
        """Refuse one class beside what every study refuses."""
        super().check()
        if self.law(self.p).n_classes == 1:
            culprit = (
                f"`classes` is {self.classes[0]}" if self.classes else f"`data` is {self.data}"
            )
            raise InputError(f"{culprit}; without two classes there is nothing to learn.")

    @property
    def n(self) -> int | None:
        """Training samples to ask for; None for all that the test samples leave."""
        return self.train_size or (_DRAWN if self.drawn else None)

    @property
    def kernel(self) -> Kernel:
        """The kernel that the twin shares with the DEQ."""
        from deqcli.training.scale import deciding_kernel

        return deciding_kernel(self.train) if self.match == "auto" else Kernel(self.match)
