import io
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from deqcli.runs.task import execute

from deqcli.errors import ExistenceError, InputError
from deqcli.runs import files
from deqcli.studies import accuracy, inputs
from deqcli.training import Settings
from deqcli.training.trio import trio


def make_spec(**changes):
    own = {"data": "gmm", "n": 200, "p": 60, "classes": "3", "mean_norm": 8.0,
           "covariance": "papers", "select": "random", "preprocess": "centred"}  # fmt: skip
    own |= {key: changes.pop(key) for key in list(changes) if key in own}
    settings = {
        "act": "relu", "sigma_a2": 0.2, "sigma_b2": None, "widths": (16, 32),
        "nets": ("deq", "matched", "plain"), "matched": "ck",
        "settings": Settings(epochs=2, batch=50), "train_size": own["n"], "test_size": 90,
        "trials": 2, "solver": "gauss-seidel", "tolerance": 1e-3, "limit": True, "ridge": 1e-3,
        "seed": 0,
    }  # fmt: skip
    return accuracy.resolve(**settings | changes, data=inputs.resolve(**own))


def run(out, spec=None, **options):
    spec = make_spec() if spec is None else spec
    return execute(accuracy.task(spec), out=out, name="a", **options)


def without_times(path):
    """Return the text of a table with its measured times taken out."""
    table = files.read_csv(path)
    assert set(accuracy.TIMES) <= set(table.columns)
    return table.drop(columns=list(accuracy.TIMES)).to_csv()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole")
    assert run(out).status == "done"
    return out


def test_schema(whole):
    table = files.read_csv(whole / "a.csv")
    assert tuple(table.columns) == accuracy.COLUMNS
    assert set(table["dataset"]) == {"gmm"}
    trained = table[table["net"].isin(["deq", "matched", "plain"])]
    keys = trained[["net", "width", "seed", "epoch"]]
    assert len(keys) == 3 * 2 * 2 * 3  # nets, widths, trials, epochs 0, 1, 2
    assert not keys.duplicated().any()
    assert not trained.isna().any().any()
    assert set(trained["status"]) == {"done"}
    assert (trained.loc[trained["epoch"] > 0, list(accuracy.TIMES)] > 0).all().all()
    assert trained["test_accuracy"].between(0, 1).all()
    deq = trained[trained["net"] == "deq"]
    assert (deq["iterations"] > 1).all()
    assert (deq["residual"] <= 1e-3).all()
    sizes = deq.groupby("width")["parameters"].first().to_dict()
    assert sizes == {m: m * m + 60 * m + 3 * m for m in (16, 32)}
    assert trained["peak_memory"].min() > 8 * 16 * 60


def test_limits(whole):
    text = (whole / "a.csv").read_text()
    table = pd.read_csv(io.StringIO(text))
    limits = table[table["width"] == 0]
    names = {
        f"{net}-{kernel}-limit" for net in ("deq", "matched", "plain") for kernel in ("ck", "ntk")
    }
    assert set(limits["net"]) == names
    assert limits["test_accuracy"].gt(0.9).all()
    assert limits[["train_loss", "parameters", "forward_seconds"]].isna().all().all()
    # A number of weights is written as a whole number, limits or not.
    assert "gmm,deq,16,0,0," in text
    assert ".0,done" not in text


def test_record(whole):
    import json

    results = json.loads((whole / "a.json").read_text())["results"]
    assert results["stopped"] == {}
    assert {(gap["net"], gap["width"]) for gap in results["gaps"]} == {
        (net, width) for net in ("matched", "plain") for width in (16, 32)
    }
    assert results["twin"]["feasible"]
    assert len(results["plain"]) == results["twin"]["layers"] == 2


def test_jobs_change_nothing_but_times(whole, tmp_path):
    run(tmp_path, jobs=2)
    assert without_times(tmp_path / "a.csv") == without_times(whole / "a.csv")


def test_interrupted_and_resumed(whole, tmp_path, monkeypatch):
    """Die in the middle, go on: finished points are not trained again, and nothing differs."""
    calls = []
    genuine = accuracy.train

    def mortal(*arguments):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return genuine(*arguments)

    monkeypatch.setattr(accuracy, "train", mortal)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path)
    stored = list(tmp_path.glob("a.parts/*width*.npz"))
    assert len(stored) == 4
    monkeypatch.setattr(accuracy, "train", genuine)
    result = run(tmp_path)
    assert (result.status, result.reused) == ("done", 4 + 6)
    assert without_times(tmp_path / "a.csv") == without_times(whole / "a.csv")


def test_a_stopped_training_is_a_row_with_a_status(tmp_path):
    spec = make_spec(limit=False, widths=(16,), trials=1, nets=("matched",), act="softplus",
                     settings=Settings(epochs=3, batch=50, learning_rate=1e5))  # fmt: skip
    assert run(tmp_path, spec).status == "done"
    table = files.read_csv(tmp_path / "a.csv")
    assert table["status"].iloc[-1].startswith("stopped: loss not finite")
    assert not table.isna().any().any()


def test_pairs_share_what_they_should(monkeypatch):
    """One trial: the same input and readout draws and order for all; inner ones are their own."""
    spec = make_spec(limit=False)
    seen = {}
    for net in ("deq", "matched", "plain"):

        def look(network, data, test, settings, rng, net=net):
            B, A, W = (p.weight / p.factor for p in network.parameters)
            seen[net] = B, A, W, rng.random(), data.X
            raise StopIteration

        monkeypatch.setattr(accuracy, "train", look)
        with pytest.raises(StopIteration):
            accuracy.run_point(spec, net, 16, 1, "", None)
    for net in ("matched", "plain"):
        for index in (0, 2, 3, 4):
            np.testing.assert_allclose(seen[net][index], seen["deq"][index], rtol=1e-5, atol=1e-6)
        assert not np.allclose(seen[net][1], seen["deq"][1])


def test_ones_own_file(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    path = tmp_path / "mine.npz"
    np.savez(path, X=rng.standard_normal((120, 10)) + 4 * y[:, None], y=y)
    spec = make_spec(data=str(path), n=None, p=None, classes=None, train_size=0, test_size=40,
                     widths=(16,), trials=1, limit=False)  # fmt: skip
    run(tmp_path, spec)
    table = files.read_csv(tmp_path / "a.csv")
    assert table.groupby("net")["test_accuracy"].last().gt(0.9).all()


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"nets": ("deq", "deep")}, InputError, "--nets has 'deep'"),
        ({"widths": (8, 8)}, InputError, "--widths"),
        ({"widths": (0,)}, InputError, "--widths"),
        ({"widths": ()}, InputError, "--widths"),
        ({"tolerance": 1e-9}, InputError, "--tol"),
        ({"matched": "both"}, InputError, "`match`"),
        ({"sigma_a2": 1.5}, ExistenceError, "sigma_a2"),
        ({"act": "quadratic"}, ExistenceError, "Lipschitz"),
        ({"data": "sphere", "classes": None}, InputError, "two classes"),
        ({"classes": "1"}, InputError, "two classes"),
    ],
)
def test_bad_specs(changes, error, words):
    with pytest.raises(error, match=words):
        make_spec(**changes)


def test_refused_before_any_point_runs():
    with pytest.raises(InputError, match="`batch` is 500"):
        accuracy.task(make_spec(settings=Settings(batch=500)))


def test_no_twin(monkeypatch):
    def without_twin(*arguments):
        found = trio(*arguments)
        return replace(found, twin=replace(found.twin, feasible=False, reason="too odd."))

    monkeypatch.setattr(accuracy, "trio", without_twin)
    with pytest.raises(InputError, match=r"no explicit network matches \(too odd\); leave matched"):
        accuracy.task(make_spec())
    accuracy.task(make_spec(nets=("deq", "plain")))


@pytest.mark.slow
def test_mnist(real_data, monkeypatch):
    """On real images the networks learn, at their defaults."""
    monkeypatch.setenv("DEQCLI_DATA_DIR", str(real_data))
    spec = make_spec(data="mnist", n=1000, p=None, classes=None, test_size=500, limit=False,
                     settings=Settings(epochs=5, batch=50))  # fmt: skip
    for net in ("deq", "matched", "plain"):
        assert accuracy.run_point(spec, net, 128, 0, "", None)["test_accuracy"][-1] > 0.85
