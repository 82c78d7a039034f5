"""Data: models to draw from and files to read."""
