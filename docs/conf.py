"""The documentation: ``.ci/run docs`` builds it, with warnings as errors, into build/docs."""

from __future__ import annotations

import importlib.metadata
import logging
import os
import re
import shutil
import sys
from pathlib import Path

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
# Examples start processes, which take the same path and draw nothing on a screen.
os.environ.update(
    MPLBACKEND="Agg",
    PYTHONPATH=str(HERE.parent),
    DASK_DISTRIBUTED__LOGGING__DISTRIBUTED="error",
)

from deqcli import __version__  # noqa: E402

# An example shows what its code prints.
logging.getLogger("deqcli").setLevel(logging.ERROR)

project = "deqcli"
author = "the deqcli developers"
copyright = "2026, the deqcli developers"
release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["examples/*", "mathjax"]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3
# Sections are cited by their number (theory.md §4), not by a heading's level.
suppress_warnings = ["myst.header", "config.cache"]

# A double hyphen is an option, not a dash.
smartquotes = False

autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_use_rtype = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"deqcli {release}"
html_static_path = ["style"]
html_css_files = ["deqcli.css"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5fb4", "color-brand-content": "#1f5fb4"},
    "dark_css_variables": {"color-brand-primary": "#7fb0f0", "color-brand-content": "#7fb0f0"},
}


def _mathjax() -> str:
    """Copy the few files of MathJax that pages need, so that formulas show without a network."""
    package = importlib.metadata.distribution("sphinx-mathjax-offline")
    source = Path(str(package.locate_file("sphinx-mathjax-offline/static/mathjax")))
    target = HERE.parent / "build" / "mathjax" / "mathjax"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source / "output" / "chtml", target / "output" / "chtml")
    shutil.copy(source / "tex-chtml.js", target)
    return str(target.parent)


html_static_path.append(_mathjax())
mathjax_path = "mathjax/tex-chtml.js"


def _papers() -> str:
    """Write the tables of papers and of figures from what the program itself knows."""
    from deqcli.papers import PAPERS
    from deqcli.reproduction import presets

    lines = ["| key | paper |", "| --- | --- |"]
    for key, paper in PAPERS.items():
        title = f"[{paper.title}]({paper.link})" if paper.link else f"*{paper.title}*"
        lines.append(f"| {key} | {paper.authors}, {title}, {paper.where} |")
    figures = ["| figure | command |", "| --- | --- |"]
    for name in presets.names():
        figures.append(f"| {presets.load(name).heading} | `deqcli reproduce {name}` |")
    text = (HERE / "papers.in").read_text(encoding="utf-8")
    return text.format(papers="\n".join(lines), figures="\n".join(figures))


(HERE / "papers.md").write_text(_papers(), encoding="utf-8")


def scrape_figures(block: object, block_vars: dict, gallery_conf: dict) -> str:
    """Save each new figure of an example; deqcli makes no pyplot figures, which others look for."""
    names = block_vars["example_globals"]
    seen = names.setdefault("__drawn__", [])
    paths = []
    for value in list(names.values()):
        if isinstance(value, Figure) and not any(value is drawn for drawn in seen):
            seen.append(value)
            path = next(block_vars["image_path_iterator"])
            value.savefig(path, dpi=200)
            paths.append(path)
    return figure_rst(paths, gallery_conf["src_dir"])


sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "image_scrapers": (scrape_figures,),
    "capture_repr": ("_repr_html_", "__repr__"),
    "ignore_repr_types": r"matplotlib",
    "download_all_examples": False,
    "show_memory": False,
    # Its page asks other hosts for scripts.
    "write_computation_times": False,
    "reset_modules": (),
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
}


def _keep_names_together(
    app: object, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Join attributes that share a line, of which all but the last would be taken for a type."""
    inside = False
    for number, line in enumerate(lines):
        if set(line) == {"-"} and number:
            inside = lines[number - 1].strip() == "Attributes"
        elif inside and re.match(r"\w+(, \w+)+ : ", line):
            names, _, kind = line.partition(" : ")
            # Of no width: a space would part them again.
            lines[number] = names.replace(", ", ",\u200b") + f" : {kind}"


def setup(app: object) -> None:
    """Read docstrings before napoleon does."""
    app.connect("autodoc-process-docstring", _keep_names_together, priority=400)
