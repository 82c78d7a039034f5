"""
The test error, predicted and measured
======================================

How well does the readout of a deep equilibrium model classify samples it has not seen? For a
Gaussian mixture random matrix theory answers before anything is drawn: the outputs on a class are
nearly normal, with a mean and a variance that follow from a few equations.
"""

import numpy as np

import deqcli

mixture = deqcli.GaussianMixture.papers(p=250, mean_norm=2.5, spread=2.0)
counts = [100, 100]
scalars = deqcli.implicit_scalars("relu", 0.2, tau0=mixture.statistics(counts).tau0)

# %%
# An infinitely wide network first. The ridge is in units of the kernel's mean diagonal.
predicted = deqcli.predict_error(mixture, counts, scalars, kernel="ck", ridge=0.1)
predicted

# %%
# The same by drawing samples, ten times, with the exact kernel.
rng, errors = np.random.default_rng(0), []
for _ in range(10):
    data, new = mixture.sample(200, rng), mixture.sample(1000, rng)
    samples = np.vstack([data.X, new.X])
    kernel = deqcli.implicit_kernels(samples, scalars.act, sigma_a2=0.2, Y=data.X).ck
    train = kernel[:200] + 0.1 * np.mean(np.diagonal(kernel)) * np.eye(200)
    outputs = kernel[200:] @ np.linalg.solve(train, np.where(data.y == 0, -1.0, 1.0))
    errors.append(np.mean((outputs > 0) != new.y))
print(f"predicted {predicted.total:.4f}")
print(f"measured  {np.mean(errors):.4f}, standard error {np.std(errors, ddof=1) / 10**0.5:.4f}")
assert abs(predicted.total - np.mean(errors)) < 0.02

# %%
# A finite network has random features in place of the kernel. That acts as a larger ridge and adds
# variance, most where it has as many neurons as there are samples: double descent.
for width in (50, 100, 200, 400, 1600):
    found = deqcli.predict_error(mixture, counts, scalars, ridge=0.01, width=width)
    print(f"{width:5d} neurons: {found.total:.4f}, effective ridge {found.effective_ridge:.3g}")

# %%
# The study ``predict`` sets the DEQ, its explicit twin and a plain network beside each other,
# predicted as lines and measured as points.
result = deqcli.run(
    "predict", n=200, p=250, values=[50, 100, 200, 400], mean_norm=2.5, trials=4, test_size=400
)
print(result)
result.figure()
