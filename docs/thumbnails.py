"""Other renderings of the gallery's figures.

A thumbnail is one panel, with type that can be read at 160 pixels. The picture of the first page
also has a narrow rendering, for phones: its panels one below the other.
"""

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.ticker import MaxNLocator, ScalarFormatter
from sphinx_gallery.scrapers import matplotlib_scraper

SIZE = (4.0, 2.8)  # inches; at 100 dots an inch that of sphinx-gallery's thumbnails
TYPE = 17  # points
MOST_TEXTS = 6  # within a panel
LONGEST = 26  # letters of a title, of a label, or of all tick labels of an axis
STACKED = {"plot_survey"}  # scripts whose first figure has a narrow rendering, the third picture
NARROW = 4.0  # inches, the width of that


def scrape(block, block_vars, gallery_conf):
    """Save the figures of a block, the last panel of the first one as the thumbnail."""
    figures = [plt.figure(number) for number in plt.get_fignums()[:1]]
    rst = matplotlib_scraper(block, block_vars, gallery_conf)  # and close them
    paths = block_vars["image_path_iterator"]
    for figure in figures:
        thumbnail = next(paths)
        block_vars["file_conf"].setdefault("thumbnail_number", len(paths))
        if Path(block_vars["src_file"]).stem in STACKED:
            stack_panels(figure)
            figure.savefig(next(paths), dpi=200)
        reduce_to_one_panel(figure)
        figure.savefig(thumbnail, dpi=100)
    return rst


def stack_panels(figure):
    """Put the axes of a figure one below the other."""
    figure.set_size_inches(NARROW, NARROW * len(figure.axes))
    grid = plt.GridSpec(len(figure.axes), 1, figure=figure)
    for ax, place in zip(figure.axes, grid, strict=True):
        ax.set_subplotspec(place)
        ax.tick_params(labelleft=True)
        ax.set_ylabel(figure.axes[0].get_ylabel())
        ax.title.set_fontsize("medium")


def reduce_to_one_panel(figure):
    """Keep the last axes of a figure, without a legend, with few ticks and large type."""
    *others, ax = figure.axes
    for other in others:
        other.remove()
    figure.legends.clear()
    if ax.get_legend():
        ax.get_legend().remove()
    figure.set_size_inches(SIZE)
    figure.set_layout_engine("constrained")
    ax.set_subplotspec(plt.GridSpec(1, 1, figure=figure)[0])
    for text in (ax.title, ax.xaxis.label, ax.yaxis.label):
        text.set_text(text.get_text() if len(text.get_text()) <= LONGEST else "")
        text.set_fontsize(TYPE)
    for text in ax.texts:
        text.set(fontsize=TYPE, visible=len(ax.texts) <= MOST_TEXTS)
    for axis in (ax.xaxis, ax.yaxis):
        if isinstance(axis.get_major_formatter(), ScalarFormatter):
            axis.set_major_locator(MaxNLocator(3))
        elif len("".join(label.get_text() for label in axis.get_ticklabels())) > LONGEST:
            axis.set_ticklabels([])
        axis.set_tick_params(labelsize=TYPE)
