"""The text of exported files: both networks, in numpy or torch, and their exact kernels.

Written by :func:`deqcli.matching.export`; :mod:`deqcli.matching.program` has the command line.
"""

NUMPY = '''
class DEQ:
    """The deep equilibrium model; weights are standard normal, samples are rows."""

    def __init__(self, n_features, width, n_outputs=1, rng=None):
        rng = np.random.default_rng(rng)
        shapes = (n_outputs, width), (width, width), (width, n_features)
        self.weights = [rng.standard_normal(shape) for shape in shapes]

    def features(self, X):
        _, A, B = self.weights
        bias = SIGMA_B * X @ B.T
        return fixed_point(
            lambda Z: phi(SIGMA_A * Z @ A.T + bias) / len(A) ** 0.5, np.zeros_like(bias)
        )

    def __call__(self, X):
        return self.features(X) @ self.weights[0].T

    def adjoint(self, X, Z, G):
        """Return s = D (g + sigma_a A's) for gradients g in the features."""
        _, A, B = self.weights
        D = slope(phi)(SIGMA_A * Z @ A.T + SIGMA_B * X @ B.T) / len(A) ** 0.5
        return fixed_point(lambda S: D * (G + SIGMA_A * S @ A), D * G)

    def gradients(self, X, delta):
        """Return those of a loss whose derivatives in the outputs are ``delta``."""
        Z = self.features(X)
        S = self.adjoint(X, Z, delta @ self.weights[0])
        return [delta.T @ Z, SIGMA_A * S.T @ Z, SIGMA_B * S.T @ X]

    def kernels(self, X):
        """Return the CK of the features and the NTK of the first output."""
        Z = self.features(X)
        S = self.adjoint(X, Z, np.tile(self.weights[0][0], (len(X), 1)))
        CK = Z @ Z.T
        return CK, CK + (S @ S.T) * (SIGMA_A**2 * CK + SIGMA_B**2 * X @ X.T)


class Twin:
    """The explicit network; weights are standard normal, samples are rows."""

    def __init__(self, n_features, width, n_outputs=1, rng=None):
        rng = np.random.default_rng(rng)
        sizes = [n_features, *all_widths(width)]
        inner = [rng.standard_normal((m, k)) for k, m in zip(sizes, sizes[1:])]
        self.weights = [rng.standard_normal((n_outputs, sizes[-1])), *inner]

    def features(self, X):
        for sigma, W in zip(ACTIVATIONS, self.weights[1:]):
            X = sigma(X @ W.T) / len(W) ** 0.5
        return X

    def __call__(self, X):
        return self.features(X) @ self.weights[0].T

    def _layers(self, X, G):
        """Return every layer's input and the gradient in its pre-activation, and the features."""
        inputs, slopes = [], []
        for sigma, W in zip(ACTIVATIONS, self.weights[1:]):
            U = X @ W.T
            inputs.append(X)
            slopes.append(slope(sigma)(U) / len(W) ** 0.5)
            X = sigma(U) / len(W) ** 0.5
        pairs = []
        for before, D, W in zip(inputs[::-1], slopes[::-1], self.weights[:0:-1]):
            pairs.append((before, G * D))
            G = (G * D) @ W
        return pairs[::-1], X

    def gradients(self, X, delta):
        pairs, Z = self._layers(X, delta @ self.weights[0])
        return [delta.T @ Z, *(S.T @ before for before, S in pairs)]

    def kernels(self, X):
        pairs, Z = self._layers(X, np.tile(self.weights[0][0], (len(X), 1)))
        CK = Z @ Z.T
        return CK, CK + sum((S @ S.T) * (before @ before.T) for before, S in pairs)


def train_step(network, X, Y, rate):
    """Take one step of gradient descent on half the mean squared error; return the loss before."""
    gap = network(X) - Y
    for W, gradient in zip(network.weights, network.gradients(X, gap / len(X))):
        W -= rate * gradient
    return 0.5 * float(np.mean(np.sum(gap**2, axis=1)))


def seeded(seed):
    """Return what networks are drawn with so that they repeat."""
    return {"rng": np.random.default_rng(seed)}


def of_numpy(X):
    return X


def as_function(f):
    return f


def slope(f):
    """Return the derivative of an activation, as a difference."""
    return lambda x: (f(x + 1e-6) - f(x - 1e-6)) / 2e-6


def fixed_point(step, Z):
    for _ in range(1000):
        new = step(Z)
        if np.abs(new - Z).max() <= 1e-11 * np.abs(new).max():
            return new
        Z = new
    raise RuntimeError("no fixed point was found: the weights no longer contract")
'''

TORCH = '''
class DEQ(nn.Module):
    """The deep equilibrium model; weights are standard normal, samples are rows.

    The gradient is that of the fixed point, found by a second one; no iteration is stored.
    """

    def __init__(self, n_features, width, n_outputs=1):
        super().__init__()
        self.A = nn.Parameter(torch.randn(width, width))
        self.B = nn.Parameter(torch.randn(width, n_features))
        self.readout = nn.Parameter(torch.randn(n_outputs, width))

    def features(self, X):
        bias = SIGMA_B * X @ self.B.T

        def step(Z):
            return phi(SIGMA_A * Z @ self.A.T + bias) / len(self.A) ** 0.5

        with torch.no_grad():
            Z = fixed_point(step, torch.zeros_like(bias))
        Z = step(Z)
        if Z.requires_grad:
            start = Z.detach().requires_grad_()
            image = step(start)

            def implicit(gradient):
                def pull(s):
                    return gradient + torch.autograd.grad(image, start, s, retain_graph=True)[0]

                return fixed_point(pull, gradient)

            Z.register_hook(implicit)
        return Z

    def forward(self, X):
        return self.features(X) @ self.readout.T


class Twin(nn.Module):
    """The explicit network; weights are standard normal, samples are rows."""

    def __init__(self, n_features, width, n_outputs=1):
        super().__init__()
        sizes = [n_features, *all_widths(width)]
        self.weights = nn.ParameterList(
            nn.Parameter(torch.randn(m, k)) for k, m in zip(sizes, sizes[1:])
        )
        self.readout = nn.Parameter(torch.randn(n_outputs, sizes[-1]))

    def features(self, X):
        for sigma, W in zip(ACTIVATIONS, self.weights):
            X = sigma(X @ W.T) / len(W) ** 0.5
        return X

    def forward(self, X):
        return self.features(X) @ self.readout.T


def kernels(network, X):
    """Return the CK of the features and the NTK of the first output."""
    Z = network.features(X).detach()
    rows = []
    for x in X:
        gradients = torch.autograd.grad(network(x[None])[0, 0], tuple(network.parameters()))
        rows.append(torch.cat([g.flatten() for g in gradients]))
    J = torch.stack(rows)
    return (Z @ Z.T).numpy(), (J @ J.T).numpy()


DEQ.kernels = Twin.kernels = kernels


def train_step(network, X, Y, rate):
    """Take one step of gradient descent on half the mean squared error; return the loss before."""
    loss = 0.5 * ((network(X) - Y) ** 2).sum(dim=1).mean()
    gradients = torch.autograd.grad(loss, tuple(network.parameters()))
    with torch.no_grad():
        for W, gradient in zip(network.parameters(), gradients):
            W -= rate * gradient
    return loss.item()


def seeded(seed):
    """Let networks that are drawn after this repeat."""
    torch.manual_seed(seed)
    return {}


def of_numpy(X):
    return torch.from_numpy(X)


def as_function(f):
    """Return an activation, or its derivative, for numpy arrays."""
    return lambda x: f(torch.from_numpy(x)).detach().numpy()


def slope(f):
    def derivative(x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return torch.autograd.grad(f(x).sum() + 0 * x.sum(), x)[0]

    return derivative


def fixed_point(step, Z):
    tolerance = 50 * torch.finfo(Z.dtype).eps
    for _ in range(1000):
        new = step(Z)
        if (new - Z).abs().max() <= tolerance * new.abs().max():
            return new
        Z = new
    raise RuntimeError("no fixed point was found: the weights no longer contract")
'''

COMMON = '''
def all_widths(width):
    """Return the width of every hidden layer, from one number or one a layer."""
    widths = [width] * len(ACTIVATIONS) if isinstance(width, int) else list(width)
    if len(widths) != len(ACTIVATIONS):
        raise ValueError(f"{len(ACTIVATIONS)} widths are needed, not {len(widths)}")
    return widths


def standardise(X):
    """Return samples as the networks expect them."""
    return (np.asarray(X, dtype=float) - MEAN) / SCALE


def normal_grid(size):
    """Return points and weights of normal expectations; an even size avoids a kink at zero."""
    points = np.linspace(-6, 6, size)
    weights = np.exp(-(points**2) / 2)
    return points, weights / weights.sum()


GRID, WEIGHT = normal_grid(90)
FINE, FINE_WEIGHT = normal_grid(20_000)


def expectation(f, C):
    """Return E f(u) f(v) for every pair of Gaussian variables of covariance C."""
    s = np.sqrt(np.diagonal(C))
    rho = np.clip(C / np.maximum(np.outer(s, s), 1e-300), -1, 1)
    left = f(s[:, None] * GRID) * WEIGHT
    total = np.empty_like(C)
    for i in range(len(C)):
        mixed = rho[i, :, None, None] * GRID[:, None]
        other = np.sqrt(1 - rho[i, :, None, None] ** 2) * GRID
        right = f(s[:, None, None] * (mixed + other)) @ WEIGHT
        total[i] = right @ left[i]
        # One variable with itself: jumps would show on the coarse grid.
        total[i, i] = f(s[i] * FINE) ** 2 @ FINE_WEIGHT
    return (total + total.T) / 2


def exact_twin(X):
    """Return the CK and the NTK of the twin at infinite width."""
    CK = NTK = X @ X.T
    for sigma in ACTIVATIONS:
        dual = expectation(as_function(slope(sigma)), CK)
        CK = expectation(as_function(sigma), CK)
        NTK = CK + NTK * dual
    return CK, NTK


def exact_deq(X):
    """Return the CK and the NTK of the DEQ at infinite width."""
    gram, CK = X @ X.T, 0.0
    for _ in range(200):
        new = expectation(as_function(phi), SIGMA_A**2 * CK + SIGMA_B**2 * gram)
        done, CK = np.abs(new - CK).max() <= 1e-7 * np.abs(new).max(), new
        if done:
            break
    inner = SIGMA_A**2 * CK + SIGMA_B**2 * gram
    dual = expectation(as_function(slope(phi)), inner)
    return CK, CK + inner * dual / (1 - SIGMA_A**2 * dual)


def of_kernel(pair, X):
    """Return the DEQ's kernel that the twin has, from its CK and NTK."""
    matrix = pair[KERNEL.endswith("ntk")]
    return SIGMA_A**2 * matrix + SIGMA_B**2 * X @ X.T if KERNEL.startswith("pre") else matrix


def distance(first, second):
    """Return the operator norm of the difference, relative to the second."""
    return np.linalg.norm(first - second, 2) / np.linalg.norm(second, 2)
'''
