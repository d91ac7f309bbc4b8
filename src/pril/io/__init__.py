"""Models in files, without pickle."""

from pril.io.model_files import load, load_notes, save, trusted_types

__all__ = ["load", "load_notes", "save", "trusted_types"]
