"""Makes one measurement in a process of its own: `one.py '{"module": "ours", "call": "train", "values": {...}}'`."""

import contextlib
import importlib
import json
import os
import sys
import warnings

if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    asked = json.loads(sys.argv[1])
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        measured = getattr(importlib.import_module(asked["module"]), asked["call"])(**asked["values"])
    print(json.dumps(measured))
