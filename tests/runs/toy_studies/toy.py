"""A study to test runs with."""

# Only a door for the discovery of studies: pickled settings must name a module that every worker
# can import, and that is toy_study.
from toy_study import STUDY

__all__ = ["STUDY"]
