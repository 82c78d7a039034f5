"""
Many machines with Dask
=======================

``scheduler`` sends the points of a study to the workers of a Dask cluster, which may be anywhere;
numbers and files are the same to the last bit. It needs ``pip install 'deqcli[dask]'`` on all of
them. Here the cluster is two processes of this machine; on others one starts ``dask scheduler`` and
``dask worker tcp://HOST:8786`` and gives that address.
"""

from dask.distributed import LocalCluster

import deqcli

settings = {"act": "relu", "n": 100, "p": 120, "realizations": 20, "width": 100, "sigma_a2": 0.2}

if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        there = deqcli.run("spectrum", scheduler=cluster.scheduler_address, **settings)
    here = deqcli.run("spectrum", jobs=1, **settings)
    print("the same to the last bit:", there.table.equals(here.table))
    figure = there.figure()

# %%
# The command line has the same: ``deqcli spectrum --act relu --scheduler tcp://HOST:8786``. Workers
# with another version of deqcli are not used, and those that are lost are done without.
