"""The threads that start runs of run_async()."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

from treadle.runtime.pool import threads_of

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


@cache
def background() -> ThreadPoolExecutor:
    """Return the threads: as many as there are CPUs, for all sessions."""
    from concurrent.futures import ThreadPoolExecutor  # imports much, and few programs run in the background

    workers = threads_of(None, "run_async").topology().available
    return ThreadPoolExecutor(workers, thread_name_prefix="treadle-ort-async")


os.register_at_fork(after_in_child=background.cache_clear)
