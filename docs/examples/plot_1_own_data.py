"""
Your own data: spectrum, twin, export
=====================================

From a file of samples to the explicit network that equals a deep equilibrium model on them. The
file here has the 8 x 8 digits that scikit-learn ships; put the name of yours in its place, a
``.npz`` with arrays ``X`` and ``y``, or a ``.csv`` with a column ``y``.
"""

from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from sklearn.datasets import load_digits

import deqcli

digits = load_digits()
path = Path(mkdtemp(), "digits.npz")
np.savez(path, X=digits.data, y=digits.target)

# %%
# Loading selects classes, balances them, and moves the samples to mean 0 and mean squared norm 1.
data = deqcli.load(path, classes=[3, 8], n=300, seed=0)
data

# %%
# Of the network the theory needs a few scalars, at the size of a sample, ``tau0``. In the theory it
# is the spread within a class, which the means hardly add to; real classes lie farther apart, and
# the norm that the network sees is the better choice.
tau0 = float(np.sqrt(np.mean(np.sum(data.X**2, axis=1))))
scalars = deqcli.implicit_scalars("tanh", sigma_a2=0.2, tau0=tau0)
scalars

# %%
# The exact kernel, the closed form that the theory puts in its place, and how far apart they are:
# eight or nine per cent of the kernel's norm. The theory lets it fall like the root of the number
# of samples, and 300 are few; the bulk of small eigenvalues, which on real data is no noise, is
# where the two differ to the eye.
act = deqcli.activation("tanh").shifted(scalars.shift)
exact = deqcli.implicit_kernels(data.X, act, sigma_a2=0.2).ck
closed = deqcli.equivalent(data.X, data.y, scalars, kernel="ck")
print(f"{deqcli.operator_distance(exact, closed) / deqcli.operator_norm(exact):.3f}")

# %%
figure = deqcli.plot.spectrum({"tanh DEQ, exact": exact, "closed form": closed})

# %%
# The twin: an explicit network with the same four scalars.
twin = deqcli.match("tanh", sigma_a2=0.2, tau0=tau0)
twin

# %%
# Its kernel on the same samples, and the DEQ's: what the closed form misses here it misses of both,
# and the two networks are much nearer to each other than either is to it.
matched = deqcli.explicit_kernels(data.X, twin.acts).ck
print(f"{deqcli.operator_distance(exact, matched) / deqcli.operator_norm(exact):.3f}")
both = deqcli.plot.spectrum({"tanh DEQ": exact, "its twin": matched})

# %%
# As a file that needs numpy alone; ``"torch"`` makes a module.
print(deqcli.export(twin, "numpy"))
