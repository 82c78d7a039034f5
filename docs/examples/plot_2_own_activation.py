"""
Your own activation
===================

Any function of a numpy array is an activation. Two facts decide what can be said of it: where it or
its slope jumps (its *kinks*), since integrals are split there, and how steep it is (its *Lipschitz
constant* L), since an equilibrium exists for ``sigma_a2 < 1 / L**2``.
"""

import numpy as np

import deqcli


def squareplus(x):
    """Softplus's cheaper relative."""
    return 0.5 * (x + np.sqrt(x * x + 1))


smooth = deqcli.activation(squareplus)
smooth

# %%
# Kinks are found, and can be given where they are known.
hard = deqcli.activation(lambda x: np.clip(x, -0.5, 1.5))
hard

# %%
# A function that gets steeper and steeper need not have an equilibrium, and is refused.
square = deqcli.activation(lambda x: x**2)
try:
    deqcli.implicit_scalars(square, sigma_a2=0.1)
except deqcli.errors.InputError as error:
    print(error)

# %%
# From here on it is like any other: scalars, exact kernels, a twin.
twin = deqcli.match(smooth, sigma_a2=0.2)
twin

# %%
curves = {"DEQ's activation": smooth}
curves |= {f"twin, layer {k}": act for k, act in enumerate(twin.acts, start=1)}
figure = deqcli.plot.activations(curves)

# %%
# The exact kernel against random networks of finite width. The mean over 30 networks comes with its
# noise, and lies from the exact kernel as far as the noise, and a bias that falls with the width,
# let it.
X = np.random.default_rng(0).standard_normal((40, 60)) / np.sqrt(60)
exact = deqcli.implicit_kernels(X, smooth, sigma_a2=0.2).ck
simulated = deqcli.simulate(X, smooth, sigma_a2=0.2, width=400, realizations=30)
print(simulated)
print(f"distance to the exact kernel: {deqcli.operator_distance(simulated.mean, exact):.3f}")
