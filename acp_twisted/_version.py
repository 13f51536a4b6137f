"""The version, a literal that the build reads."""

__version__ = "0.1.0"
