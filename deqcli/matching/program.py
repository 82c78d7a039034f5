"""The text of exported files, last part: a command line that tries both networks."""

PROGRAM = '''
def check(X, width, draws=4, seed=0):
    """Compare kernels of random networks with the exact ones, on a few samples."""
    X = X[np.linspace(0, len(X) - 1, min(16, len(X))).astype(int)]
    own = KERNEL.endswith("ntk")
    exact, random = {"Twin": exact_twin(X)[own]}, seeded(seed)
    if DEQ is not None:
        exact["DEQ"] = of_kernel(exact_deq(X), X)
    for name, network in (("DEQ", DEQ), ("Twin", Twin)):
        if network is None:
            print("DEQ: not in this file")
            continue
        mean = 0.0
        for _ in range(draws):
            pair = network(X.shape[1], width, **random).kernels(of_numpy(X))
            mean = mean + (of_kernel(pair, X) if network is DEQ else pair[own]) / draws
        print(f"{name}: mean kernel of {draws} networks of width {width}, "
              f"{distance(mean, exact[name]):.4f} of the norm from the exact {KERNEL}")
    if DEQ is not None:
        gap = distance(exact["Twin"], exact["DEQ"])
        print(f"exact kernels: Twin {gap:.4f} of the norm from DEQ")


def train(X, y, width, steps, rate, seed=0):
    """Train both networks by gradient descent on the same samples; print the losses."""
    Y = np.eye(y.max() + 1)[y] - 1 / (y.max() + 1)
    networks, random = {"DEQ": DEQ, "Twin": Twin}, seeded(seed)
    sizes = X.shape[1], width, Y.shape[1]
    models = {name: n(*sizes, **random) for name, n in networks.items() if n is not None}
    if KERNEL != "ntk" and DEQ is not None:
        print(f"The twin has the {KERNEL} of the DEQ; all weights learn, which the ntk decides.")
    print("step  " + "".join(f"{name:>10}" for name in models))
    every = max(1, steps // 10)
    for step in range(steps + 1):
        with np.errstate(all="ignore"):
            losses = [train_step(m, of_numpy(X), of_numpy(Y), rate) for m in models.values()]
        if not np.isfinite(losses).all():
            raise RuntimeError(f"the loss is no longer finite at step {step}")
        if step % every == 0:
            print(f"{step:4d}  " + "".join(f"{loss:10.5f}" for loss in losses))


def read(path, *names):
    """Return arrays of an .npz file, or end with a sentence."""
    try:
        with open(path, "rb") as file, np.load(file) as arrays:
            data = {name: arrays[name] for name in arrays.files}
    except OSError as error:
        sys.exit(f"{path} cannot be read: {error.strerror or error}.")
    except Exception:
        sys.exit(f"{path} is no .npz of plain arrays; write one by np.savez({path!r}, X=X, y=y).")
    missing = [name for name in names if name not in data]
    if missing:
        sys.exit(f"{path} has no array {missing[0]} but {', '.join(data) or 'none'}; add it.")
    return [data[name] for name in names]


def samples(path, X):
    """Return samples as the networks expect them, or end with a sentence."""
    if X.ndim != 2 or 0 in X.shape or X.dtype.kind not in "buif":
        sys.exit(f"X in {path} is of shape {X.shape}, {X.dtype}; give numbers, a sample a row.")
    if np.size(MEAN) not in (1, X.shape[1]):
        sys.exit(f"X in {path} has {X.shape[1]} columns; this twin is for {np.size(MEAN)}.")
    bad = np.sum(~np.isfinite(X).all(axis=1))
    if bad:
        sys.exit(f"X in {path} has {bad} row(s) that are not finite; remove them.")
    return standardise(X)


def classes(path, X, y):
    """Return the classes of samples as 0, 1, ..., or end with a sentence."""
    if y.shape != (len(X),):
        sys.exit(f"y in {path} is of shape {y.shape}; give one class for each of {len(X)} samples.")
    if y.dtype.kind in "fc" and not np.isfinite(y).all():
        sys.exit(f"y in {path} has {np.sum(~np.isfinite(y))} entries that are not finite; "
                 "remove those samples.")
    known, y = np.unique(y, return_inverse=True)
    if not 2 <= len(known) <= 1000:
        sys.exit(f"y in {path} has {len(known)} different values; give 2 to 1000 classes.")
    return y


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", metavar="FILE", help=".npz with X: compare the kernels on it")
    parser.add_argument("--train", metavar="FILE", help=".npz with X, y: train both on it")
    parser.add_argument("--width", type=int, default=500)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rate", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=0, help="of the weights")
    options = parser.parse_args()
    if options.width < 1 or options.steps < 0 or not 0 < options.rate < math.inf:
        sys.exit("--width is at least 1, --steps is not negative, and --rate is above 0.")
    if not 0 <= options.seed < 2**63:
        sys.exit("--seed is not negative, and below 2**63.")
    if not (options.check or options.train):
        parser.print_help()
    try:
        if options.check:
            (X,) = read(options.check, "X")
            check(samples(options.check, X), options.width, seed=options.seed)
        if options.train:
            X, y = read(options.train, "X", "y")
            X, y = samples(options.train, X), classes(options.train, X, y)
            train(X, y, options.width, options.steps, options.rate, options.seed)
    except RuntimeError as error:
        sys.exit(f"{error}; take a smaller --rate or a larger --width.")


if __name__ == "__main__":
    main()
'''
