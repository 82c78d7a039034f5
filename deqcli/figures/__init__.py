"""Figures: each ``draw(table) -> Figure`` reads the table's columns and nothing else."""
