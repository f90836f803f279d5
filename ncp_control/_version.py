"""The one place where the version is written; the build reads it without importing anything."""

__version__ = "0.2.0"
