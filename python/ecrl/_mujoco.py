"""Makes MuJoCo's library known before what is linked with it is loaded: it comes from PyPI's mujoco."""

import ctypes
import importlib.util
import pathlib

LIBRARY = "libmujoco.so.3.17.0"


def _load() -> None:
    found = importlib.util.find_spec("mujoco")
    places = list(found.submodule_search_locations or []) if found else []
    for place in places:
        library = pathlib.Path(place, LIBRARY)
        if library.exists():
            ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
            return
    raise ImportError(f"ecrl needs mujoco==3.17.0: there is no {LIBRARY} in {places or 'any installed mujoco'}")


_load()
