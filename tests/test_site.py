"""The site as `make docs` built it: names, links, and what a browser sees."""

import importlib.util
import inspect
import re
from html.parser import HTMLParser
from pathlib import Path
from pkgutil import resolve_name
from urllib.parse import unquote, urlsplit

import pytest

import pril

SITE = Path(__file__).parents[1] / "output" / "site"
pytestmark = [
    pytest.mark.site,
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="`make docs` builds the site"),
]
UNAVAILABLE = None if importlib.util.find_spec("torch") else "torch"  # its names are documented
PAGES = sorted(set(SITE.rglob("*.html")) - set(SITE.glob("_static/**/*.html")))


class Page(HTMLParser):
    """What a page links to, what it loads, and where it can be linked to."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors |= {values.get("id") or "", (values.get("name") or "") if tag == "a" else ""}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" and values.get("rel") not in ("canonical", "license"):
            self.loads.append(values["href"])
        if tag in ("img", "script", "iframe", "source", "video", "object") and values.get("src"):
            self.loads.append(values["src"])


@pytest.fixture(scope="module")
def pages():
    return {path: Page(path) for path in PAGES}


def test_no_example_warns():
    pages = {
        path.name: path.read_text(encoding="utf-8") for path in SITE.glob("auto_examples/*.html")
    }
    examples = {name: text for name, text in pages.items() if name.startswith("plot_")}
    assert len(examples) > 10
    for noise in ("Warning:", "compiling, once"):
        assert [name for name, text in examples.items() if noise in text] == []


def test_every_internal_link_resolves(pages):
    broken = []
    for path, page in pages.items():
        for link in page.links + page.loads:
            target = urlsplit(link)
            if target.scheme or target.netloc:
                continue
            file = (path.parent / unquote(target.path)).resolve() if target.path else path
            exists = file.is_file() and file.is_relative_to(SITE)
            anchored = file not in pages or unquote(target.fragment) in pages[file].anchors
            if not (exists and anchored):
                broken.append(f"{path.relative_to(SITE)}: {link}")
    assert broken == []
    assert len(pages) > 100


def test_nothing_is_loaded_from_elsewhere(pages):
    foreign = [
        f"{path.relative_to(SITE)}: {link}"
        for path, page in pages.items()
        for link in page.loads
        if urlsplit(link).netloc
    ]
    remote = re.compile(r"""(?:url\(|@import)\s*["']?(?:https?:)?//""")
    for sheet in [*SITE.rglob("*.css"), *PAGES]:
        if remote.search(sheet.read_text(encoding="utf-8")):
            foreign.append(f"{sheet.relative_to(SITE)}: a style sheet")
    assert foreign == []


def public_names(module=pril):
    names = module.__all__ if module is not pril else set(dir(pril)) - {"__version__", UNAVAILABLE}
    for name in names:
        item = getattr(module, name)
        if inspect.ismodule(item):
            yield from public_names(item)
        else:
            yield f"{module.__name__}.{name}"


def test_every_public_name_has_a_page():
    """A name may be documented where else it is public: `pril.io.save` as `pril.save`."""
    from sphinx.util.inventory import InventoryFile

    inventory = InventoryFile.loads((SITE / "objects.inv").read_bytes(), uri="").data
    kinds = ("py:class", "py:function", "py:exception", "py:data")
    documented = {
        name: entry.uri.partition("#")[0]
        for kind in kinds
        for name, entry in inventory[kind].items()
    }
    assert all((SITE / page).exists() for page in documented.values())
    documented = [name for name in documented if not name.startswith(f"pril.{UNAVAILABLE}.")]
    known = [resolve_name(name) for name in documented]
    missing = [
        name for name in public_names() if not any(resolve_name(name) is item for item in known)
    ]
    assert missing == []


def test_class_pages_have_a_side_bar_and_no_internals(pages):
    shown = pages[SITE / "reference" / "generated" / "pril.OrderedLogit.html"]
    assert {"pril.OrderedLogit.fit", "pril.OrderedLogit.posterior"} <= shown.anchors
    assert not {f"pril.OrderedLogit.{name}" for name in ("engine", "settings")} & shown.anchors
    api = {urlsplit(link).path for link in pages[SITE / "reference" / "api.html"].links}
    api = {path.removeprefix("generated/") for path in api if path.startswith("generated/")}
    assert len(api) > 90
    assert api - {urlsplit(link).path for link in shown.links} <= {"pril.OrderedLogit.html"}


def test_every_gallery_script_has_a_picture(pages):
    scripts = {path.stem for path in (SITE.parents[1] / "examples").glob("plot_*.py")}
    assert len(scripts) >= 8
    for script in scripts:
        page = pages[SITE / "auto_examples" / f"{script}.html"]
        assert any(f"sphx_glr_{script}_001" in link for link in page.loads), script
        assert not any(f"sphx_glr_{script}_002" in link for link in page.loads)  # the thumbnail


def test_search_finds_a_page_without_a_server(browser):
    tab = browser.new_page()
    tab.goto(f"{(SITE / 'search.html').as_uri()}?q=brackets")
    tab.locator("#search-results li a", has_text="Which label do I have?").first.wait_for()
    tab.close()


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize(
    "page", ["index.html", "quickstart.html", "auto_examples/plot_widths.html"]
)
def test_a_browser_opens_the_page(browser, page, width):
    """No error on the console, nothing requested but files, nothing wider than the window."""
    tab = browser.new_page(viewport={"width": width, "height": 900})
    said, requested = [], []
    tab.on("console", lambda m: said.append(m.text) if m.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on("requestfailed", lambda request: said.append(f"failed: {request.url}"))
    tab.on("request", lambda request: requested.append(request.url))
    tab.goto((SITE / page).as_uri(), wait_until="networkidle")
    assert said == []
    assert [url for url in requested if not url.startswith(("file:", "data:"))] == []
    assert (SITE / page).as_uri() in requested
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.close()


@pytest.mark.parametrize(("width", "shown"), [(1280, "wide-only"), (400, "narrow-only")])
def test_the_first_picture_fits_the_window(browser, width, shown):
    """Letters of 10 points in the picture have at least 10 pixels on the screen."""
    tab = browser.new_page(viewport={"width": width, "height": 900})
    tab.goto((SITE / "index.html").as_uri())
    pictures = tab.locator("img.wide-only, img.narrow-only")
    assert pictures.count() == 2
    visible = [picture for picture in pictures.all() if picture.is_visible()]
    assert [picture.get_attribute("class") for picture in visible] == [shown]
    dots = {"wide-only": 100, "narrow-only": 200}[shown]  # an inch
    wide, natural = visible[0].evaluate("image => [image.width, image.naturalWidth]")
    assert 10 / 72 * dots * wide / natural >= 10
    tab.close()
