"""Studies: each a frozen spec, its points, and the table that they make."""
