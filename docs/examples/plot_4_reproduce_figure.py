"""
A figure of a paper again
=========================

``deqcli reproduce`` makes the papers' figures from presets. The same from Python, for Figure 1
(left) of the ICLR version, at half its size and a tenth of its networks so that it takes seconds.
"""

import deqcli

result = deqcli.run(
    "spectrum",
    act="arctan",
    sigma_a2=0.1,
    kernel="preactivation-ck",
    n=400,
    p=500,
    realizations=40,
    width=500,
    jobs=1,
)
result

# %%
figure = result.figure()

# %%
# The table behind the figure is a DataFrame, the distances are in the findings.
print(result.table.groupby("source")["eigenvalue"].describe()[["count", "max"]])
print(result.findings["distances"]["exact"])

# %%
# With ``out="results", name="mine"`` the files of the command are written: CSV, figure, and a JSON
# with the settings, the seed, versions and the command that makes the same again.
