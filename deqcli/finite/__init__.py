"""The network of finite width: its weights, equilibrium, adjoint and spectral norm."""
