"""The study of accuracy: its samples, its table, its gaps."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import deqcli
import deqcli.kernel_ridge
from deqcli import study
from deqcli.errors import ExistenceError, InputError
from deqcli.runs import tables
from deqcli.runs.execute import run
from deqcli.studies.accuracy import COLUMNS, STUDY, TIMES, AccuracySettings
from deqcli.training import loop
from deqcli.training import trio as trio_module
from deqcli.vocabulary import Net

SMALL = {
    "data": "gmm", "p": 60, "classes": "3", "train_size": 200, "test_size": 90, "widths": (16, 32),
    "trials": 2, "epochs": 2, "batch": 50, "twin": "scalars",
}  # fmt: skip


def make(**changes):
    return AccuracySettings(**SMALL | changes)


@pytest.fixture(autouse=True)
def forget_prepared():
    """Let no test see networks that another one has changed."""
    study.prepared.cache_clear()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run(make(), out=tmp_path_factory.mktemp("whole"), name="a", jobs=1)


def test_schema(whole):
    table = whole.table
    # Of samples of a mixture the accuracy of wide readouts is predicted.
    assert tuple(table.columns) == (*COLUMNS, "predicted_accuracy")
    assert set(table["dataset"]) == {"gmm"}
    trained = table[table["net"].isin(list(Net))]
    keys = trained[["net", "width", "trial", "epoch"]]
    assert len(keys) == 3 * 2 * 2 * 3  # nets, widths, trials, epochs 0, 1, 2
    assert not keys.duplicated().any()
    assert not trained.isna().any().any()
    assert set(trained["status"]) == {"done"}
    assert (trained.loc[trained["epoch"] > 0, list(TIMES)] > 0).all().all()
    assert trained["test_accuracy"].between(0, 1).all()
    deq = trained[trained["net"] == "deq"]
    assert (deq["iterations"] > 1).all()
    assert (deq["residual"] <= 1e-3).all()
    sizes = deq.groupby("width")["parameters"].first().to_dict()
    assert sizes == {m: m * m + 60 * m + 3 * m for m in (16, 32)}
    assert trained["peak_memory"].min() > 8 * 16 * 60


def test_limits(whole):
    text = whole.paths[0].read_text()
    table = tables.read(whole.paths[0])
    limits = table[table["width"] == 0]
    assert set(limits["net"]) == {f"{net}-limit" for net in Net}
    assert len(limits) == 3 * 2 * 3  # nets, trials, epochs 0, 1, 2
    assert not limits[["train_loss", "test_loss", "test_accuracy"]].isna().any().any()
    assert limits[["iterations", "parameters", "forward_seconds"]].isna().all().all()
    # A number of weights is written as a whole number, limits or not.
    assert "\ndeq,16,0,0," in text
    sizes = [row[3] for row in whole.record["constants"][1]["values"]]
    assert all(size is None or type(size) is int for size in sizes)


def test_a_limit_starts_where_its_widest_network_does(whole):
    start = whole.table[whole.table["epoch"] == 0].set_index(["net", "width", "trial"])
    for net, trial in product(Net, range(2)):
        for column in ("train_loss", "test_loss", "test_accuracy"):
            limit = start.loc[(f"{net}-limit", 0, trial), column]
            # The DEQ's equilibria depend on the batch within the solver's tolerance.
            assert limit == pytest.approx(start.loc[(net.value, 32, trial), column], rel=2e-3)


def test_findings(whole):
    findings = whole.findings
    assert findings["stopped"] == {}
    assert findings["kernel"] == "ntk"
    assert {(gap["net"], gap["width"]) for gap in findings["gaps"]} == {
        (net, width) for net in ("matched", "plain") for width in (16, 32)
    }
    assert [gap["net"] for gap in findings["predicted"]] == ["matched", "plain"]
    assert [row["measure"] for row in findings["resolution"]] == ["distance", "accuracy"]
    assert findings["clipped"] == [{"dataset": "gmm", "width": m, "share": 0.0} for m in (16, 32)]
    assert findings["scales"]["deq"] == {"gain": 1.0, "rate": 1.0}
    assert findings["twin"]["feasible"]
    assert len(findings["plain"]) == findings["twin"]["layers"] == 2
    # The numbers beside the papers, from the table by another route.
    last = whole.table.query("width == 32 and epoch == 2").set_index(["net", "trial"])
    right, loss = 100 * last["test_accuracy"], np.log(last["train_loss"])
    gaps = {net: (right["deq"] - right[net]).mean() for net in ("matched", "plain")}
    expected = {
        "accuracy": right["deq"].mean(),
        "accuracy_matched": gaps["matched"],
        "accuracy_plain": gaps["plain"],
        "accuracy_advantage": abs(gaps["plain"]) - abs(gaps["matched"]),
        "end_plain": (loss["plain"] - loss["deq"]).mean(),
    }
    measured = {q.key: q.measure(whole).value for q in STUDY.quantities(whole.settings)}
    assert {key: measured[key] for key in expected} == pytest.approx(expected)
    assert all("Infinite width predicts" in quantity.remark(whole)
               for quantity in STUDY.quantities(whole.settings)[1:])  # fmt: skip


@pytest.mark.parametrize(
    ("train", "match", "kernel"),
    [("all", "auto", "ntk"), ("readout", "auto", "ck"), ("all", "ck", "ck"),
     ("readout", "preactivation-ntk", "preactivation-ntk")],
)  # fmt: skip
def test_the_twin_has_the_kernel_that_decides(train, match, kernel):
    prepared = STUDY.prepare(make(train=train, match=match, act="tanh"))
    assert prepared.settings.kernel == kernel
    assert prepared.nets.twin.as_record()["kernel"] == kernel


def test_twins_by_data_and_by_scalars():
    """A twin on data is nearer on these samples; few samples are not fitted to."""
    distances = {}
    for twin in ("data", "scalars"):
        prepared = STUDY.prepare(make(twin=twin))
        X, nets = prepared.data.X, prepared.nets
        deq, found = (nets.kernels(net, X).compute("ntk")[0] for net in (Net.DEQ, Net.MATCHED))
        distances[twin] = np.linalg.norm(found - deq, 2) / np.linalg.norm(deq, 2)
    assert distances["data"] < 0.02
    assert distances["data"] < distances["scalars"]
    assert [make(train_size=n, batch=5, twin=None).twin for n in (19, 20)] == ["scalars", "data"]


def test_layers_of_the_plain_network():
    layers = [len(STUDY.prepare(make(plain_layers=n)).nets.plain) for n in (None, 1, 3)]
    assert layers == [2, 1, 3]


def test_own_scales_on_request():
    equal, own = (STUDY.prepare(make(scale=scale)).scales for scale in ("equal", "own"))
    assert all((scale.gain, scale.rate) == (1, 1) for scale in own.values())
    assert equal[Net.PLAIN].gain > 1.4
    network = STUDY._network(STUDY.prepare(make()), Net.PLAIN, 16, 0)
    assert network.rate == equal[Net.PLAIN].rate
    assert network.parameters[-1].factor == pytest.approx(equal[Net.PLAIN].gain / 4)


def test_limits_are_left_out_where_their_kernel_is_large():
    assert make(train_size=10_000).limit == "linearised"
    assert make(train_size=10_001).limit == "none"
    assert len(STUDY.points(make(limit="none"))) == 12
    assert len(STUDY.points(make())) == 15


def test_a_stopped_training_is_a_row_with_a_status():
    result = deqcli.run(make(limit="none", widths=16, trials=1, nets="matched", act="softplus",
                             match="ck", epochs=3, learning_rate=1e5), jobs=1)  # fmt: skip
    assert (result.status, result.exit_code) == ("done", 3)
    assert result.table["status"].iloc[-1].startswith("stopped: loss not finite")
    assert not result.table.isna().any().any()


def test_pairs_share_what_they_should(monkeypatch):
    """One trial: the same input and readout draws and order for all; inner ones are their own."""
    prepared = STUDY.prepare(make())
    seen = {}
    for net in Net:

        def look(network, data, test, settings, rng, net=net):
            B, A, W = (p.weight / p.factor for p in network.parameters)
            seen[net] = B, A, W, rng.random(), data.X
            raise StopIteration

        monkeypatch.setattr(loop, "train", look)
        with pytest.raises(StopIteration):
            STUDY.compute(prepared, net, 16, 1)
    for net in (Net.MATCHED, Net.PLAIN):
        for index in (0, 2, 3, 4):
            np.testing.assert_allclose(seen[net][index], seen[Net.DEQ][index], rtol=1e-5, atol=1e-6)
        assert not np.allclose(seen[net][1], seen[Net.DEQ][1])


def test_ones_own_file(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    path = tmp_path / "mine.npz"
    np.savez(path, X=rng.standard_normal((120, 10)) + 4 * y[:, None], y=y)
    settings = make(data=str(path), p=None, classes=None, train_size=None, test_size=None,
                    widths=16, trials=1, limit="none")  # fmt: skip
    # A fifth is held out, the rest is for training.
    assert (settings.train_size, settings.test_size) == (0, 24)
    assert STUDY.prepare(settings).data.n_samples == 96
    table = run(settings, jobs=1).table
    assert table.groupby("net")["test_accuracy"].last().gt(0.9).all()


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        (
            {"nets": ("deq", "deep")},
            InputError,
            "`nets` is 'deep'; choose from deq, matched, plain",
        ),
        ({"nets": "deq,deq"}, InputError, "`nets` has deq twice"),
        ({"widths": (8, 8)}, InputError, "`widths` has 8 twice; give each value once"),
        ({"widths": (0,)}, InputError, "`widths` is 0; give a whole number at least 1"),
        ({"widths": ()}, InputError, "`widths` is empty; give at least one value"),
        ({"tolerance": 1e-9}, InputError, "`tolerance` is 1e-09"),
        ({"match": "both"}, InputError, "`match` is 'both'; choose from auto, ck"),
        ({"sigma_a2": 1.5}, ExistenceError, "`sigma_a2` is 1.5, too large for 'relu'"),
        ({"act": "quadratic"}, ExistenceError, "Lipschitz"),
        ({"data": "sphere", "classes": None}, InputError, "`data` is sphere; without two classes"),
        ({"classes": "1"}, InputError, "`classes` is 1; without two classes"),
    ],
)
def test_bad_settings(changes, error, words):
    with pytest.raises(error, match=words):
        make(**changes)


def test_refused_before_any_point_runs():
    with pytest.raises(InputError, match="`batch` is 500, more than the 200 training samples"):
        run(make(batch=500), jobs=1)
    with pytest.raises(InputError, match="there are 19 training samples, and a twin"):
        run(make(train_size=19, batch=5, twin="data"), jobs=1)


def test_no_twin(monkeypatch):
    def without_twin(*arguments, **options):
        nets = trio(*arguments, **options)
        return replace(nets, twin=replace(nets.twin, feasible=False, reason="too odd."))

    trio = trio_module.trio
    monkeypatch.setattr(trio_module, "trio", without_twin)
    with pytest.raises(InputError, match=r"no explicit network matches \(too odd\); leave matched"):
        STUDY.prepare(make())
    STUDY.prepare(make(nets=("deq", "plain")))


@pytest.mark.slow
def test_mnist(real_data):
    """On real images the networks learn, at their defaults."""
    settings = make(data="mnist", data_dir=str(real_data), p=None, classes=None, train_size=1000,
                    test_size=500, epochs=15, limit="none")  # fmt: skip
    prepared = STUDY.prepare(settings)
    for net in Net:
        assert STUDY.compute(prepared, net, 128, 0)["test_accuracy"][-1] > 0.85


@pytest.mark.parametrize("direct", [20_000, 50])
@pytest.mark.parametrize(("train", "kernel"), [("all", "ntk"), ("readout", "ck")])
def test_least_squares_with_the_limit(train, kernel, direct, monkeypatch, tmp_path):
    """Against the equations written out, whether solved directly or by conjugate gradients."""
    monkeypatch.setattr(deqcli.kernel_ridge.fit_kernel_ridge, "__kwdefaults__", {
        **deqcli.kernel_ridge.fit_kernel_ridge.__kwdefaults__, "direct": direct,
    })  # fmt: skip
    settings = make(limit="regression", train=train, widths=(16,), trials=1)
    found = run(settings, out=tmp_path, name="r", jobs=1)
    prepared = STUDY.prepare(settings)
    data, test, nets = prepared.data, prepared.test, prepared.nets
    variances = nets.act, nets.sigma_a2, nets.sigma_b2
    (K,) = deqcli.implicit_kernels(data.X, *variances).compute(kernel)
    (k,) = deqcli.implicit_kernels(test.X, *variances, data.X).compute(kernel)
    targets = np.eye(3)[data.y]
    weights = np.linalg.solve(K + 1e-3 * np.trace(K) / len(K) * np.eye(len(K)), targets - 1 / 3)
    limit = found.findings["regression"]
    assert limit["kernel"] == kernel
    assert limit["accuracy"] == np.mean((k @ weights).argmax(axis=1) == test.y)
    assert (limit["residual"] is None) == (direct > 200)
    assert f"exact {kernel}: test accuracy" in "\n".join(STUDY.sentences(found.findings))
    assert not set(found.table["net"]) - set(Net)
