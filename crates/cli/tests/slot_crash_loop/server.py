"""A server whose store is a real SQLite database, as the memory bridges of agents have one. Only the standard library.

  server.py make DATABASE ROWS        fills a database and says so; its reader then kills it, and the log stays
  server.py check DATABASE            prints what is in a database, in JSON
  server.py serve DATABASE RECORD [--pid-file FILE] [--ready-file FILE]

`serve` answers JSON-RPC lines once its database is open. If the last server had no time to close it, that takes long: SQLite recovers
the log, then the server checks it, indexes it anew, and checkpoints it. A server that is killed before that has achieved nothing.
"""

import fcntl
import json
import os
import signal
import sqlite3
import sys
import time


def make(path, rows):
    """Each batch of 10,000 is committed; none is brought from the log into the database."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA page_size=4096")
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA wal_autocheckpoint=0")
    db.execute("PRAGMA synchronous=OFF")  # a kill is no loss of power
    db.execute("CREATE TABLE memories (id INTEGER PRIMARY KEY, hash TEXT, said TEXT)")
    db.execute("CREATE INDEX by_hash ON memories (hash)")
    db.execute("CREATE TABLE lives (id INTEGER PRIMARY KEY, pid INTEGER)")
    said = "what was said " * 5
    for start in range(0, rows, 10_000):
        batch = range(start, min(start + 10_000, rows))
        db.execute("BEGIN")
        new = ((i, "%08x" % (i * 2654435761 % 2**32), said) for i in batch)
        db.executemany("INSERT INTO memories VALUES (?, ?, ?)", new)
        db.execute("COMMIT")
    print("made", os.path.getsize(path + "-wal"), flush=True)
    signal.pause()


def check(path):
    db = sqlite3.connect(path, isolation_level=None)
    one = lambda sql: db.execute(sql).fetchone()[0]
    print(json.dumps({
        "integrity": one("PRAGMA integrity_check"),
        "memories": one("SELECT count(*) FROM memories"),
        "sum": one("SELECT total(id) FROM memories"),
        "lives": [pid for pid, in db.execute("SELECT pid FROM lives ORDER BY id")],
    }))


class Server:
    def __init__(self, path, record):
        self.path = path
        self.record = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)

    def note(self, what):
        os.write(self.record, f"{os.getpid()} {time.time() * 1000:.0f} {what}\n".encode())

    def replace_the_last_one(self, pid_file):
        """What many servers do: kill the process in the file, wait for its end, and write their own pid into it."""
        try:
            with open(pid_file) as file:
                last = int(file.read())
            os.kill(last, signal.SIGTERM)
            patience = time.monotonic() + 0.05
            while True:
                os.kill(last, 0)
                with open(f"/proc/{last}/stat") as stat:
                    if stat.read().rpartition(")")[2].split()[0] == "Z":
                        break
                if time.monotonic() > patience:
                    os.kill(last, signal.SIGKILL)
                time.sleep(0.002)  # as such servers do: they get no event when a stranger ends
        except (OSError, ValueError):
            pass  # no such process
        with open(pid_file + ".new", "w") as file:
            file.write(str(os.getpid()))
        os.rename(pid_file + ".new", pid_file)

    def open(self):
        # Two witnesses that it is alone: a lock of its own, and the database's.
        self.claim = open(self.path + ".claim", "w")
        try:
            fcntl.flock(self.claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.note("two")
        try:
            left = os.path.getsize(self.path + "-wal")
        except OSError:
            left = 0
        self.note(f"opens {left}")
        self.db = sqlite3.connect(self.path, timeout=0, isolation_level=None)
        try:
            # Held from here until the end; for any other process the database is locked.
            self.db.execute("PRAGMA locking_mode=EXCLUSIVE")
            self.db.execute("BEGIN EXCLUSIVE")
            self.db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            self.note(f"locked {error}")
            sys.exit(1)
        self.note("recovered")
        if left:
            [(answer,)] = self.db.execute("PRAGMA integrity_check").fetchall()
            self.note(f"checked {answer}")
            self.db.execute("REINDEX")
            [(answer,)] = self.db.execute("PRAGMA integrity_check").fetchall()
            self.note(f"checked {answer}")
            # Only from now on the next server need not do this work again.
            [(busy, _, _)] = self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self.note(f"checkpointed {busy}")
        self.db.execute("INSERT INTO lives (pid) VALUES (?)", (os.getpid(),))
        self.note("committed")

    def answer(self, method):
        if method == "initialize":
            return {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "db", "version": "1"}}
        memories = self.db.execute("SELECT max(id) + 1 FROM memories").fetchone()[0]
        return {"pid": os.getpid(), "memories": memories}

    def serve(self):
        while line := sys.stdin.readline():
            message = json.loads(line)
            if "id" in message and "method" in message:
                answer = {"jsonrpc": "2.0", "id": message["id"], "result": self.answer(message["method"])}
                print(json.dumps(answer), flush=True)

    def close(self):
        self.db.close()
        self.note("closed")


def serve(path, record, *options):
    options = dict(zip(options[::2], options[1::2]))
    server = Server(path, record)
    server.note("start")
    if "--pid-file" in options:
        server.replace_the_last_one(options["--pid-file"])
    server.open()
    # From now on the server closes its database on SIGTERM. (Before, Python could not run a handler: SQLite is at work.)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        server.note("ready")
        if "--ready-file" in options:
            open(options["--ready-file"], "w").close()
        server.serve()
    finally:
        server.close()


if __name__ == "__main__":
    mode, path, *rest = sys.argv[1:]
    if mode == "make":
        make(path, int(rest[0]))
    elif mode == "check":
        check(path)
    else:
        serve(path, *rest)
