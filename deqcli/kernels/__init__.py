"""Exact infinite-width kernels of implicit and explicit networks."""
