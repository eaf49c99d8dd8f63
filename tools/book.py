#!/usr/bin/env python3
"""Parts of `tools/book`: what mdBook reads, and what it wrote.

    tools/book.py assemble ZIPWIRE REPOSITORY BOOK     copy the pages of docs/SUMMARY.md to BOOK/src, with links that hold there
    tools/book.py links HTML                           follow every link, picture and anchor of a built book
    tools/book.py open HTML                            open every page in Chromium, on a narrow screen and a wide one

Exit codes: 0 all is well; 1 something is not, as it says; 77 (skipped) Chromium or a package is not available here.
"""

import functools
import html.parser
import http.server
import pathlib
import posixpath
import re
import shutil
import subprocess
import sys
import threading
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIPPED = 77
# Entries of the summary that have no file: where each goes, its title, and the commands that print it.
MADE = {
    "All commands": ("reference/commands.md", "help --markdown"),
    "All keys of scenarios": ("reference/scenario.md", "scenario schema --markdown"),
}
ENTRY = re.compile(r"\[([^]]+)]\(([^)]*)\)")
# Code, which has no links, or the target of a link or picture.
LINK = re.compile(r"(`+[^`]*`+)|]\(([^)\s]+)\)")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
WIDTHS = (390, 1280)
# What is cut off at the right, because no box around it scrolls.
OVERFLOW = """() => {
    const wide = document.documentElement.clientWidth;
    const scrolls = (e) => e && e !== document.body && (/auto|scroll/.test(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
    const cut = [...document.querySelectorAll('main *')].filter((e) => e.getBoundingClientRect().right > wide + 1 && !scrolls(e));
    const wider = document.documentElement.scrollWidth > wide ? ['wider than its window'] : [];
    return [...wider, ...cut.slice(0, 3).map((e) => `cut off: ${e.tagName} ${e.textContent.slice(0, 40)}`)];
}"""
BROKEN_PICTURES = "() => [...document.images].filter((i) => !i.naturalWidth).map((i) => 'no picture: ' + i.src)"


def assemble(zipwire, repository, book):
    """Fills BOOK with what mdBook reads."""
    source = book / "src"
    shutil.copytree(ROOT / "docs", source, ignore=shutil.ignore_patterns("*.md", "book.toml", "book.css"))
    for name in ("book.toml", "book.css"):
        shutil.copy(ROOT / "docs" / name, book / name)
    summary = (ROOT / "docs/SUMMARY.md").read_text()
    pages = {posixpath.normpath(f"docs/{target}") for _, target in ENTRY.findall(summary) if target}
    for page in sorted(pages):
        write(source / place(page), linked((ROOT / page).read_text(), page, pages, repository))
    for title, (path, command) in MADE.items():
        summary = summary.replace(f"[{title}]()", f"[{title}]({path})")
        printed = subprocess.run([zipwire, *command.split()], check=True, capture_output=True, text=True)
        write(source / path, printed.stdout)
    write(source / "SUMMARY.md", ENTRY.sub(lambda entry: f"[{entry[1]}]({in_book(entry[2])})", summary))
    print(f"{len(pages)} pages, {len(MADE)} made")


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def place(page):
    """Place in the book of a page of the repository: a README is the index of its folder."""
    inside = page.removeprefix("docs/")
    return re.sub(r"(^|/)README\.md$", r"\1index.md", inside)


def in_book(target):
    """Target of an entry of the summary, in the book."""
    return place(posixpath.normpath(f"docs/{target}")) if not target.startswith("reference/") else target


def linked(text, page, pages, repository):
    """A page whose links hold in the book: those that leave it lead to the repository."""

    def link(found):
        target = found[2]
        if target is None or target.startswith("#") or urllib.parse.urlsplit(target).scheme:
            return found[0]
        path, _, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
        anchor = anchor and f"#{anchor}"
        if not (ROOT / path).exists():
            sys.exit(f"{page}: there is no `{target}`")
        if path in pages or path.startswith("docs/") and not path.endswith(".md") and (ROOT / path).is_file():
            return f"]({posixpath.relpath(place(path), posixpath.dirname(place(page)) or '.')}{anchor})"
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"]({repository}/{kind}/main/{path}{anchor})"

    in_code = False
    lines = []
    for line in text.split("\n"):
        if line.startswith("```"):
            in_code = not in_code
        lines.append(line if in_code else LINK.sub(link, line))
    return "\n".join(lines)


class Page(html.parser.HTMLParser):
    """Anchors of a page, and what it leads to."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.targets = set(), []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.ids.add(value)
            elif value and name in ("href", "src"):
                self.targets.append(value)


def links(folder):
    """Says which links of a built book lead nowhere."""
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))}
    broken, count = [], 0
    for path, page in pages.items():
        for target in page.targets:
            parts = urllib.parse.urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            other = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            other = other / "index.html" if other.is_dir() else other
            anchor = urllib.parse.unquote(parts.fragment)
            if not other.is_file():
                broken.append(f"{path.relative_to(folder)}: there is no `{target}`")
            elif anchor and other in pages and anchor not in pages[other].ids:
                broken.append(f"{path.relative_to(folder)}: there is no anchor `{target}`")
    print("\n".join(broken + [f"{len(pages)} pages, {count} links, {len(broken)} broken"]))
    return 1 if broken else 0


def open_all(folder):
    """Opens every page in Chromium, and says what is wrong with it."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        return skip(f"the Python package `{error.name}` is missing\nhelp: pip install playwright")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        return skip("no Chromium on the path\nhelp: apt-get install -y chromium")
    # `toc.html` is a frame of the others, where there is no JavaScript.
    pages = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.html") if path.name != "toc.html")
    wrong = 0
    with serve(folder) as server, sync_playwright() as playwright:
        origin = f"http://127.0.0.1:{server.server_port}/"
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        for width in WIDTHS:
            for page in pages:
                for problem in problems(browser, origin, page, width):
                    print(f"{page} at {width} pixels: {problem}")
                    wrong += 1
        browser.close()
        server.shutdown()
    print(f"{len(pages)} pages opened at {' and '.join(map(str, WIDTHS))} pixels, {wrong} problems")
    return 1 if wrong else 0


def skip(reason):
    print(f"skipped: {reason}", file=sys.stderr)
    return SKIPPED


def serve(folder):
    """Serves a folder on a free port, from a thread of its own."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, *_):
            """A page that is closed does not wait for the rest."""

    server = Server(("127.0.0.1", 0), functools.partial(Handler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def problems(browser, origin, page, width):
    """Problems of one page: errors, requests that fail or leave the book, and what is wider than the window."""
    found = []
    tab = browser.new_page(viewport={"width": width, "height": 900})
    tab.on("console", lambda message: message.type == "error" and found.append(f"console: {message.text}"))
    tab.on("pageerror", lambda error: found.append(f"error: {error}"))
    tab.on("requestfailed", lambda request: found.append(f"failed: {request.url}"))
    tab.on("response", lambda response: response.status >= 400 and found.append(f"{response.status}: {response.url}"))
    tab.on("request", lambda request: leaves(origin, request.url) and found.append(f"leaves the book: {request.url}"))
    tab.goto(origin + page, wait_until="load")
    found += tab.evaluate(OVERFLOW) + tab.evaluate(BROKEN_PICTURES)
    tab.close()
    return found


def leaves(origin, url):
    return not url.startswith((origin, "data:", "blob:"))


def main():
    match sys.argv[1:]:
        case ["assemble", zipwire, repository, book]:
            return assemble(zipwire, repository, pathlib.Path(book))
        case ["links", folder]:
            return links(pathlib.Path(folder).resolve())
        case ["open", folder]:
            return open_all(pathlib.Path(folder).resolve())
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
