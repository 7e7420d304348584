"""The version of the library, read by the build as well."""

__version__ = "0.1.0.dev0"
