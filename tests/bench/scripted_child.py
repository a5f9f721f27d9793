"""A child of `side_by_side` that measures nothing: it notes what it is told, and when.

argv: a file to note it in; the cases that shall go wrong; at which of their blocks; and how.
"""

import json
import os
import signal
import sys
import time

LOG, WHO, AT, HOW = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
ROUND = json.loads(sys.argv[5])
job = json.loads(sys.stdin.readline())


def note(words):
    with open(LOG, "a") as file:
        file.write("%s %s\n" % (job["path"], words))


def tell(message):
    print(json.dumps(message), flush=True)


def wrong(block):
    if job["path"] not in WHO.split(",") or block != AT:
        return
    if HOW == "dies" or (HOW == "dies later" and not job["golden"]):
        print("the last words", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if HOW == "hangs":
        time.sleep(1000)
    if HOW == "refuses":
        tell({"failed": "give it more memory"})
        sys.exit(0)
    if HOW == "interrupts" and not job["golden"]:
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(1000)


note("starts %d" % os.getpid())
assert job["waits"] is True
tell({"phase": "load", "at": time.perf_counter()})
wrong(0)
tell({"phase": "decode", "at": time.perf_counter()})
tell({"waits": None})
blocks = 0
while True:
    order = json.loads(sys.stdin.readline())
    if not order["tokens"]:
        break
    blocks += 1
    note("block %d %d" % (order["tokens"], order["dropped"]))
    wrong(blocks)
    tell({"waits": 0.0005 if job["path"] == "fast" else 0.001})
note("ends")
tell({"phase": "rows", "at": time.perf_counter()})
about = {"backend": "ort", "packages": {}, "parity": {"passed": True, "what": "all"}}
tell({"done": {"round": ROUND, "about": about}})
