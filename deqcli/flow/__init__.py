"""Gradient flow on the implicit layer of a ReLU equilibrium network, and what theory promises."""
