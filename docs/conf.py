"""How Sphinx builds the site: `make docs`."""

import inspect
import logging
import os
import re
import sys
import warnings
from pathlib import Path

# The gallery's tables are small: threads would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))  # thumbnails.py

import sphinx.util.inspect

import pril
from pril.core.registry import LEARNERS

# That something compiles is no result of an example.
logging.getLogger("pril.online.compile_time").setLevel(logging.ERROR)

project = "pril"
author = "The pril developers"
copyright = author  # noqa: A001
release = pril.__version__
version = release

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinxcontrib.typer",
]
exclude_patterns = ["auto_examples/*.ipynb", "auto_examples/*.py", "auto_examples/*.md5"]
exclude_patterns += ["reference/learners.rst"]  # api.md includes it
templates_path = ["_templates"]
default_role = "py:obj"  # names in single backticks of docstrings link to their pages

# Pages: Markdown, with links to headings as code hosts have them.
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

# API pages: one for each public name, made from the tables of reference/api.md. The table of the
# learners comes from the registry; autosummary reads files, so it is written to one.
autosummary_generate = ["reference/api.md", "reference/learners.rst"]
autodoc_mock_imports = ["torch"]  # gigabytes, of which pages need nothing
LEARNER_TABLE = """.. currentmodule:: pril

.. autosummary::
   :toctree: generated
   :nosignatures:

   {}
"""
Path(__file__).with_name("reference").joinpath("learners.rst").write_text(
    LEARNER_TABLE.format("\n   ".join(learner.name for learner in LEARNERS)),
    encoding="utf-8",
)
toc_object_entries_show_parents = "hide"  # `fit()` in the right column, not OrderedLogit.fit()
autodoc_typehints = "none"  # numpydoc has the types
numpydoc_show_class_members = False
copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = r">>> |\.\.\. |\$ |> "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "image_scrapers": ("thumbnails.scrape",),
    "within_subsection_order": "thumbnails.Order",
    "ignore_pattern": r"(^|/)(?!plot_|network_)[^/]*\.py$",  # networks are shown, but not run
    "backreferences_dir": "reference/backreferences",
    "doc_module": ("pril",),
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,  # that page would load scripts from elsewhere
    "show_signature": False,
    "remove_config_comments": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "pril"
html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {
        "text": f"pril {release}",
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo.svg",
    },
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}
html_sidebars = {"index": [], "install": [], "quickstart": []}

# A warning of the code that the gallery runs is a warning of the build.
warnings.filterwarnings("error", module="pril")


# Names that other parts of the package use, but users do not.
INTERNAL = {
    *("check_parameters", "choice", "engine", "labelled_block", "labelled_rows", "learn_maximum"),
    *("link_function", "log_chances", "median", "settings"),  # of learners
    *("centre_words", "kernel_weights", "merge", "reference_words"),  # of features
    *("units", "cells"),
}


def skip_members(app, what, name, obj, skip, options):
    """Leave out internals, and what other packages describe."""
    function = inspect.unwrap(getattr(obj, "fget", None) or getattr(obj, "__func__", obj))
    module = getattr(function, "__module__", None) or ""
    internal = name in INTERNAL and not module.startswith("pril.labels")  # Scale.median is no such
    return True if internal or not module.startswith("pril") else None


def show_arguments(app, what, name, obj, options, signature, returns):
    """Show the arguments of classes that users make: the others have no section of parameters."""
    if what != "class":
        return None
    if "Parameters\n" not in (obj.__doc__ or ""):
        return "", None
    made = sphinx.util.inspect.signature(obj.__init__, bound_method=True)  # that of a torch module
    return sphinx.util.inspect.stringify_signature(made, show_annotation=False), None


def trim_examples(app, docname, source):
    """Remove the blank line that ends an example: doctest needs it, readers do not."""
    source[0] = source[0].replace("\n\n```\n", "\n```\n")


NAME = re.compile(rf"(?<!\[)`({'|'.join(pril.__all__)})`(?!\])")


def link_names(app, docname, source):
    """Link the first mention of each public name on a page of the guide to its API page."""
    if not docname.startswith(("guide/", "quickstart", "install", "reference/glossary")):
        return
    linked = set()

    def link(match):
        if match[1] in linked:
            return match[0]
        linked.add(match[1])
        return f"{{py:obj}}`~pril.{match[1]}`"

    parts = re.split(r"(^#[^\n]*$|^```.*?^```$)", source[0], flags=re.MULTILINE | re.DOTALL)
    source[0] = "".join(part if part[:1] in "#`" else NAME.sub(link, part) for part in parts)


def setup(app):
    """Connect what is defined here."""
    app.connect("source-read", trim_examples)
    app.connect("source-read", link_names)
    app.connect("autodoc-skip-member", skip_members)
    app.connect("autodoc-process-signature", show_arguments)
