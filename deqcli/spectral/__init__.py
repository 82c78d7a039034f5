"""The limiting spectra of kernels on mixtures: density, edges, atoms, isolated eigenvalues."""
