"""The threads that start runs of run_async()."""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from treadle.runtime.pool import threads_of


@cache
def background() -> ThreadPoolExecutor:
    """Return the threads: as many as there are CPUs, for all sessions."""
    workers = threads_of(None, "run_async").topology().available
    return ThreadPoolExecutor(workers, thread_name_prefix="treadle-ort-async")


os.register_at_fork(after_in_child=background.cache_clear)
