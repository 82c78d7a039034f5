"""Runs that survive: seeds, atomic files, stores, provenance, parallel work. No kernels here."""
