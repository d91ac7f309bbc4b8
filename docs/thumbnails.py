"""Thumbnails of the gallery: one panel of a figure, with type that can be read at 160 pixels."""

import matplotlib.pyplot as plt
from matplotlib.ticker import MaxNLocator, ScalarFormatter
from sphinx_gallery.scrapers import matplotlib_scraper

SIZE = (4.0, 2.8)  # inches; at 100 dots an inch that of sphinx-gallery's thumbnails
TYPE = 17  # points
MOST_TEXTS = 6  # within a panel
LONGEST = 26  # letters of a title, of a label, or of all tick labels of an axis


def scrape(block, block_vars, gallery_conf):
    """Save the figures of a block, and the last panel of the first one as the thumbnail."""
    figures = [plt.figure(number) for number in plt.get_fignums()[:1]]
    rst = matplotlib_scraper(block, block_vars, gallery_conf)  # and close them
    paths = block_vars["image_path_iterator"]
    for figure in figures:
        reduce_to_one_panel(figure)
        figure.savefig(next(paths), dpi=100)
        block_vars["file_conf"].setdefault("thumbnail_number", len(paths))
    return rst


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
