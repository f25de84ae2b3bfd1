"""What the scripts share that make pictures of terminals: a run of a command in a real pseudo-terminal, as much of a terminal as our own
commands use, and the window that is drawn around it. Needs Python 3.11 and nothing else.
"""

import os
import pty
import re
import select
import struct
import sys
import termios
import time
from dataclasses import dataclass, field
from fcntl import ioctl
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CELL, LINE, SIZE = 7.5, 17, 12.5
MARGIN, BAR = 14, 30
PATIENCE = 60.0

INKS = {1: "b", 2: "d", 7: "i", 31: "r", 32: "g", 33: "y", 36: "c"}
STYLE = """
svg{color:#1f2328}.p{color:#fff}.l{color:#d8dee4}.d{color:#59636e}.r{color:#cf222e}.g{color:#1a7f37}.y{color:#9a6700}.c{color:#0969da}
@media(prefers-color-scheme:dark){svg{color:#e6edf3}.p{color:#0d1117}.l{color:#30363d}.d{color:#9198a1}.r{color:#ff7b72}.g{color:#3fb950}\
.y{color:#d29922}.c{color:#58a6ff}}
text{font:%spx ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:currentColor;white-space:pre}.b{font-weight:600}
@media(prefers-reduced-motion:reduce){*{animation:none!important}}
""" % SIZE


def record(words: list[str], columns: int, rows: int, keys: list[tuple[float, bytes]] = []) -> list[tuple[float, bytes]]:
    """What the command writes to its terminal, with the seconds since its start. Keys are pressed at their seconds."""
    pid, master = pty.fork()
    if pid == 0:
        ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        environment |= {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        try:
            os.execvpe(words[0], words, environment)
        except OSError as error:
            print(f"{words[0]}: {error.strerror}", flush=True)
            os._exit(127)
    begin = time.monotonic()
    written: list[tuple[float, bytes]] = []
    keys = list(keys)
    while True:
        while keys and keys[0][0] <= time.monotonic() - begin:
            os.write(master, keys.pop(0)[1])
        wait = max(0, keys[0][0] - (time.monotonic() - begin)) if keys else PATIENCE
        readable, _, _ = select.select([master], [], [], wait)
        if keys and not readable:
            continue
        try:
            data = os.read(master, 1 << 16) if readable else b""
        except OSError:  # the terminal's last user has closed it
            data = b""
        if not data:
            break
        written.append((time.monotonic() - begin, data))
    # The last end of the terminal: a command that still runs gets SIGHUP.
    os.close(master)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code != 0:
        said = b"".join(data for _, data in written).decode(errors="replace")
        sys.exit(f"{' '.join(words)} exited with {code}:\n{said}")
    return written


@dataclass
class Screen:
    """As much of a terminal as our commands use. Lines that have scrolled away are kept."""

    rows: int

    lines: list[list[tuple[str, str]]] = field(default_factory=lambda: [[]])
    row: int = 0
    column: int = 0
    ink: tuple[str, ...] = ()
    rest: str = ""

    TOKEN = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])|\x1b.?|[^\x1b]")

    def write(self, text: str) -> None:
        text = self.rest + text
        # A sequence may come in two pieces.
        cut = re.search(r"\x1b(\[[?0-9;]*)?$", text)
        self.rest = cut[0] if cut else ""
        for match in self.TOKEN.finditer(text[: cut.start()] if cut else text):
            if match[3]:
                self.control(match[1] + match[3], match[2])
            elif match[0] == "\n":
                self.row += 1
                while len(self.lines) <= self.row:
                    self.lines.append([])
            elif match[0] == "\r":
                self.column = 0
            elif match[0].isprintable():
                self.put(match[0])
            else:
                sys.exit(f"the command wrote {match[0]!r}, which this script does not know")

    def control(self, name: str, numbers: str) -> None:
        line = self.lines[self.row]
        if name == "m":
            for number in (int(part or 0) for part in numbers.split(";")):
                self.ink = () if number == 0 else (*self.ink, INKS[number])
        elif name == "K" and numbers in ("", "0"):
            del line[self.column :]
        elif name == "H":
            row, column = (int(part or 1) - 1 for part in (numbers.split(";") + ["", ""])[:2])
            self.row, self.column = row, column
            while len(self.lines) <= self.row:
                self.lines.append([])
        elif name == "J" and numbers == "2":
            self.lines = [[] for _ in self.lines]
        elif name == "A":
            self.row = max(0, self.row - int(numbers or 1))
        elif name not in ("?l", "?h"):
            sys.exit(f"the command wrote the sequence {numbers}{name}, which this script does not know")

    def put(self, letter: str) -> None:
        line = self.lines[self.row]
        while len(line) <= self.column:
            line.append((" ", ""))
        line[self.column] = (letter, " ".join(self.ink))
        self.column += 1

    def top(self) -> int:
        """The first line that is on the screen."""
        # The line below the last line end is empty.
        return max(0, len(self.lines) - 1 - self.rows)

    def pieces(self) -> set[tuple[int, int, str, str]]:
        """What is written, as line, column, text and ink. Texts end at wide gaps, so that columns stay aligned in every font."""
        found = set()
        for row, line in enumerate(self.lines):
            at = 0
            while at < len(line):
                ink, end = line[at][1], at
                while end < len(line) and line[end][1] == ink and [cell[0] for cell in line[end : end + 2]] != [" ", " "]:
                    end += 1
                text = "".join(cell[0] for cell in line[at:end])
                if text.strip():
                    found.add((row, at + len(text) - len(text.lstrip()), text.strip(), ink))
                at = max(end, at + 1)
        return found


def text_of(piece: tuple[int, int, str, str]) -> str:
    """A piece as an element."""
    row, column, text, ink = piece
    ink = f' class="{ink}"' if ink else ""
    return f'<text x="{MARGIN + column * CELL:g}" y="{(row + 1) * LINE - 4}"{ink}>{escape(text, quote=False)}</text>'


def window(title: str, columns: int, rows: int, rules: list[str], content: list[str]) -> str:
    """A terminal's window with this in it."""
    width, height = columns * CELL + 2 * MARGIN, BAR + rows * LINE + MARGIN
    dots = "".join(f'<circle cx="{MARGIN + 6 + 18 * n}" cy="{BAR / 2:g}" r="5" class="l" fill="currentColor"/>' for n in range(3))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" width="{width:g}" height="{height}" role="img">',
            f"<title>{title}</title>",
            f"<style>{STYLE}{chr(10).join(rules)}</style>",
            f'<rect x=".5" y=".5" width="{width - 1:g}" height="{height - 1}" rx="6" class="p" fill="currentColor"/>',
            f'<rect x=".5" y=".5" width="{width - 1:g}" height="{height - 1}" rx="6" class="l" fill="none" stroke="currentColor"/>',
            f'{dots}<text x="{width / 2:g}" y="{BAR / 2 + 4:g}" text-anchor="middle" class="d">{title}</text>',
            f'<svg y="{BAR}" width="{width:g}" height="{rows * LINE}">',
            *content,
            "</svg>",
            "</svg>",
            "",
        ]
    )
