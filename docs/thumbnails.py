"""Other renderings of the gallery's figures.

A thumbnail is one panel, with type that can be read at 160 pixels. The picture of the first page
also has a narrow rendering, for phones: its panels one below the other.
"""

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.ticker import MaxNLocator, ScalarFormatter
from sphinx_gallery.scrapers import matplotlib_scraper
from sphinx_gallery.sorting import NumberOfCodeLinesSortKey

SIZE = (4.0, 2.8)  # inches; at 100 dots an inch that of sphinx-gallery's thumbnails
TYPE = 17  # points
MOST_TEXTS = 6  # within a panel
LONGEST = 26  # letters of a title, of a label, or of all tick labels of an axis
HIGHEST = 16  # letters of a label along the vertical axis
PAD = 0.12  # inches around the panel
FIRST = ["plot_survey", "plot_raters", "plot_choosing"]  # in the gallery
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


class Order(NumberOfCodeLinesSortKey):
    """Some scripts first, then the shortest ones."""

    def __call__(self, filename):
        """Return the place of a script."""
        name = Path(filename).stem
        return FIRST.index(name) - len(FIRST) if name in FIRST else super().__call__(filename)


def take_panels(figure):
    """Remove the colour keys of a figure; return its other axes, and what each key had."""
    keys = [ax for ax in figure.axes if ax.get_label() == "<colorbar>"]
    shown = [(ax.get_ylabel(), ax.get_yticks()) for ax in keys]
    for ax in keys:
        ax.remove()
    return figure.axes, shown


def stack_panels(figure):
    """Put the axes of a figure one below the other, and its colour key at the bottom."""
    panels, keys = take_panels(figure)
    figure.set_size_inches(NARROW, NARROW * len(panels) + 0.8 * len(keys))
    grid = plt.GridSpec(len(panels), 1, figure=figure)
    for ax, place in zip(panels, grid, strict=True):
        ax.set_subplotspec(place)
        ax.tick_params(labelleft=True)
        ax.set_ylabel(panels[0].get_ylabel())
        ax.title.set_fontsize("medium")
    for label, ticks in keys:
        (image,) = panels[-1].images
        below = {"location": "bottom", "aspect": 30, "label": label}
        figure.colorbar(image, ax=panels, ticks=ticks, format="{x:.0%}", **below)


def reduce_to_one_panel(figure):
    """Keep the last axes of a figure, without a legend, with few ticks and large type."""
    *others, ax = take_panels(figure)[0]
    for other in others:
        other.remove()
    figure.legends.clear()
    if ax.get_legend():
        ax.get_legend().remove()
    figure.set_size_inches(SIZE)
    figure.set_layout_engine("constrained", w_pad=PAD, h_pad=PAD)
    ax.set_subplotspec(plt.GridSpec(1, 1, figure=figure)[0])
    texts = [(ax.title, LONGEST), (ax.xaxis.label, LONGEST), (ax.yaxis.label, HIGHEST)]
    for text, longest in texts:
        text.set_text(text.get_text() if len(text.get_text()) <= longest else "")
        text.set_fontsize(TYPE)
    for text in ax.texts:
        text.set(fontsize=TYPE, visible=len(ax.texts) <= MOST_TEXTS)
    for axis in (ax.xaxis, ax.yaxis):
        if isinstance(axis.get_major_formatter(), ScalarFormatter):
            axis.set_major_locator(MaxNLocator(3))
        elif len("".join(label.get_text() for label in axis.get_ticklabels())) > LONGEST:
            axis.set_ticklabels([])
        axis.set_tick_params(labelsize=TYPE)
    figure.canvas.draw()
    for text in ax.texts:  # above or beside the axes, it would cover the title or be cut
        x, y = ax.transAxes.inverted().transform(text.get_window_extent().corners()).T
        text.set_visible(text.get_visible() and 0 <= x.min() <= x.max() <= 1 >= y.max() >= 0)
