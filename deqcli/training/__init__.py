"""Training: the DEQ by implicit differentiation and explicit networks, in numpy."""
