"""
Kernel regression with scikit-learn
===================================

A deep equilibrium model of infinite width is a kernel method, and its exact kernel works wherever
scikit-learn takes one. It needs ``pip install 'deqcli[sklearn]'``.
"""

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_diabetes, load_digits
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import SVC

import deqcli

# %%
# Regression, the ridge chosen by cross-validation, beside a linear model.
X, y = load_diabetes(return_X_y=True)
X, y = X[:250], y[:250]
search = GridSearchCV(deqcli.DEQRegressor("relu", sigma_a2=0.2), {"ridge": [0.01, 0.1, 1]}, cv=5)
linear = cross_val_score(RidgeCV(np.logspace(-3, 2, 6)), X, y, cv=5)
print(f"DEQ    R2 {search.fit(X, y).best_score_:.2f} with {search.best_params_}")
print(f"linear R2 {linear.mean():.2f}")

# %%
# Classification, by the network with all weights trained (``ntk``) or its readout alone (``ck``).
digits = load_digits(n_class=4)
X, y = digits.data[:300], digits.target[:300]
for kernel in ("ntk", "ck"):
    scores = cross_val_score(deqcli.DEQClassifier("relu", kernel=kernel), X, y, cv=3)
    print(f"{kernel}: {scores.mean():.3f}")

# %%
# A support vector machine with the same kernel. Samples should be of norm about 1 for most
# activations; the two estimators above see to that themselves.
scaled = (X - X.mean(axis=0)) / np.linalg.norm(X - X.mean(axis=0), axis=1).mean()
print(f"{cross_val_score(SVC(kernel=deqcli.DEQKernel('relu'), C=10), scaled, y, cv=3).mean():.3f}")

# %%
# A Gaussian process that learns how strongly the layer feeds itself, besides scale and noise.
rng = np.random.default_rng(0)
X = rng.standard_normal((60, 3))
y = np.sin(X[:, 0]) + 0.5 * np.abs(X[:, 1]) + 0.05 * rng.standard_normal(60)
kernel = ConstantKernel() * deqcli.DEQKernel("relu", 0.1, sigma_a2_bounds=(1e-3, 0.5))
process = GaussianProcessRegressor(kernel + WhiteKernel(0.01), normalize_y=True).fit(X, y)
process.kernel_

# %%
# What it says of new samples, with two standard deviations, against the truth. The two that are far
# off have a first coordinate beyond all that it was trained on.
new = rng.standard_normal((60, 3))
truth = np.sin(new[:, 0]) + 0.5 * np.abs(new[:, 1])
mean, deviation = process.predict(new, return_std=True)
figure = Figure(figsize=(4, 3), layout="constrained")
axes = figure.subplots()
axes.axline((0, 0), slope=1, color="black", linestyle="--", linewidth=0.8)
axes.set(xlabel="truth", ylabel="predicted")
bars = axes.errorbar(truth, mean, 2 * deviation, fmt="o", markersize=3, linewidth=0.8)
