#!/usr/bin/env python3
"""Picture of a command in a terminal, as SVG: what it prints where lines have so many columns, colours included.

    tools/terminal.py 80 docs/images/terminal-80.svg target/release/zipwire run scenarios/quickstart.toml

Needs nothing but Python, on a system with pseudo-terminals.
"""

import fcntl
import html
import os
import pty
import re
import struct
import sys
import termios

COLOURS = {"31": "#c01c28", "32": "#1a7f37", "33": "#9a6700", "36": "#0b7285", "91": "#c01c28", "94": "#0550ae"}
WIDTH, HEIGHT, MARGIN = 8.4, 18, 12


def printed(columns: int, command: list[str]) -> str:
    """All that the command prints on a terminal of so many columns."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(TERM="xterm-256color", COLUMNS=str(columns))
        os.environ.pop("NO_COLOR", None)
        # The size is there before the command asks for it.
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        os.execvp(command[0], command)
    chunks = []
    try:
        while chunk := os.read(terminal, 1 << 16):
            chunks.append(chunk)
    except OSError:
        pass  # The child has closed its end.
    status = os.waitpid(child, 0)[1]
    if status != 0:
        sys.exit(f"`{' '.join(command)}` has ended with {status}")
    return b"".join(chunks).decode()


def lines(text: str) -> list[str]:
    """Lines as they remain: bars that are drawn over and cleared are gone."""
    kept = []
    for line in text.replace("\r\n", "\n").split("\n"):
        line = line.rsplit("\x1b[2K", 1)[-1].rsplit("\r", 1)[-1]
        kept.append(re.sub(r"\x1b\[[0-9;]*[A-HJKf]|\x1b\[\?[0-9]+[hl]", "", line))
    return kept


def of_palette(number: int) -> str:
    """Colour of the palette of 256: a cube of 6 x 6 x 6 from 16 on, and greys from 232 on."""
    if number >= 232:
        return "#" + f"{8 + 10 * (number - 232):02x}" * 3
    levels = (0, 95, 135, 175, 215, 255)
    number -= 16
    return "#" + "".join(f"{levels[number // step % 6]:02x}" for step in (36, 6, 1))


def spans(line: str) -> str:
    """A line as SVG, with bold and coloured parts."""
    parts, style = [], ""
    for token in re.split(r"(\x1b\[[0-9;]*m)", line):
        if not token.startswith("\x1b"):
            parts.append(f'<tspan{style}>{html.escape(token)}</tspan>' if token else "")
            continue
        codes = [code for code in token[2:-1].split(";") if code not in ("", "0")]
        style = ' font-weight="bold"' if "1" in codes else ""
        if codes[:2] == ["38", "5"]:
            style = f' fill="{of_palette(int(codes[2]))}"'
        else:
            style += "".join(f' fill="{COLOURS[code]}"' for code in codes if code in COLOURS)
    return "".join(parts)


def main() -> None:
    columns, out, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    shown = lines(printed(columns, command))
    while shown and not shown[-1].strip():
        shown.pop()
    shown = [f"\x1b[1m$\x1b[0m {' '.join([os.path.basename(command[0]), *command[1:]])}", *shown]
    width, height = columns * WIDTH + 2 * MARGIN, len(shown) * HEIGHT + 2 * MARGIN
    texts = [
        f'<text x="{MARGIN}" y="{MARGIN + 13 + HEIGHT * row}" xml:space="preserve">{spans(line)}</text>'
        for row, line in enumerate(shown)
    ]
    frame = f'<rect width="{width:.0f}" height="{height}" rx="6" fill="#ffffff" stroke="#d0d7de"/>'
    root = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}"'
    font = 'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14" fill="#1f2328"'
    with open(out, "w", encoding="utf-8") as file:
        file.write(f"{root} {font}>\n{frame}\n" + "\n".join(texts) + "\n</svg>\n")


if __name__ == "__main__":
    main()
