"""tf.config.threading, and the rule that the first session of a process sets its numbers of threads."""

from __future__ import annotations

import warnings
import weakref
from dataclasses import dataclass

import treadle.runtime.threads as process
from treadle import forking
from treadle.compat.tensorflow.config import ConfigProto
from treadle.compat.tensorflow.errors import InvalidArgumentError
from treadle.errors import ThreadSettingError, ThreadSettingWarning
from treadle.runtime.pool import Pool


@dataclass(slots=True)
class _Numbers:
    """The numbers as the user set them, and whether a session has fixed them for later ones."""

    intra: int = 0
    inter: int = 0
    first: bool = False
    warned: bool = False


_numbers = _Numbers()
_lock = forking.lock()


def get_intra_op_parallelism_threads() -> int:
    """Return the number that was set; 0 is automatic. See tf.config.threading in TensorFlow's documentation."""
    return _numbers.intra


def get_inter_op_parallelism_threads() -> int:
    """Return the number that was set; 0 is automatic. See tf.config.threading in TensorFlow's documentation."""
    return _numbers.inter


def set_intra_op_parallelism_threads(num_threads: int) -> None:
    """Set how many workers may share one op. See tf.config.threading in TensorFlow's documentation.

    Unlike in TensorFlow it may be called at any time; it takes effect at the next op.

    Args:
        num_threads: the limit; 0 is automatic.

    Raises:
        treadle.errors.ThreadSettingError: not an int of at least 0. It is a ValueError.
    """
    process.set(intra_op=num_threads)
    _numbers.intra = num_threads


def set_inter_op_parallelism_threads(num_threads: int) -> None:
    """Set how many independent ops may be in progress at once. See tf.config.threading in TensorFlow's documentation.

    Unlike in TensorFlow it may be called at any time; it takes effect at the next op.

    Args:
        num_threads: the limit; 0 is automatic.

    Raises:
        treadle.errors.ThreadSettingError: not an int of at least 0. It is a ValueError.
    """
    process.set(inter_op=num_threads)
    _numbers.inter = num_threads


def apply_config(config: ConfigProto) -> None:
    """Set the numbers of the process to those of the first session's config.

    For later sessions warn once if they differ.
    """
    intra, inter = config.intra_op_parallelism_threads, max(0, config.inter_op_parallelism_threads)
    with _lock:
        if not _numbers.first:
            _set(intra, inter)
            _numbers.first = True
            return
        ignored = (intra and intra != _numbers.intra) or (inter and inter != _numbers.inter)
        if ignored and not _numbers.warned:
            _numbers.warned = True
            warnings.warn(
                f"this session asks for intra_op={intra} and inter_op={inter} threads, but as in TensorFlow the first "
                f"session fixed them for the process (intra_op={_numbers.intra}, inter_op={_numbers.inter}; 0 is "
                "automatic); for numbers of its own set use_per_session_threads=True in its ConfigProto, or change the "
                "process's with tf.config.threading",
                ThreadSettingWarning,
                stacklevel=4,
            )


def _set(intra: int, inter: int) -> None:
    try:
        process.set(intra_op=intra or None, inter_op=inter or None)
    except ThreadSettingError as error:
        raise InvalidArgumentError(None, None, str(error)) from error
    _numbers.intra, _numbers.inter = intra or _numbers.intra, inter or _numbers.inter


def session_pools(config: ConfigProto) -> list[Pool]:
    """Return the pools of a session with this config; an empty list if it uses the process's team.

    Raises InvalidArgumentError for impossible numbers, or a name that is in use with another number.
    """
    try:
        if config.session_inter_op_thread_pool:
            return [_pool(option.num_threads, option.global_name) for option in config.session_inter_op_thread_pool]
        if config.use_per_session_threads:
            inter = max(0, config.inter_op_parallelism_threads)
            return [Pool(intra_op=config.intra_op_parallelism_threads, inter_op=inter)]
    except ThreadSettingError as error:
        raise InvalidArgumentError(None, None, str(error)) from error
    return []


def _pool(threads: int, name: str) -> Pool:
    if not name:
        return Pool(inter_op=threads)
    pool = Pool(name)
    try:
        return Pool(name, inter_op=threads) if pool in _shared else _configure_shared(pool, threads)
    except ThreadSettingError:
        raise InvalidArgumentError(
            None,
            None,
            f"Pool {name} configured previously with num_threads={pool.get().inter_op}; "
            f"cannot re-configure with num_threads={threads}",
        ) from None


_shared: weakref.WeakSet[Pool] = weakref.WeakSet()


def _configure_shared(pool: Pool, threads: int) -> Pool:
    pool.set(inter_op=threads)
    _shared.add(pool)
    return pool


def reset_first_session() -> None:
    """Treat the next session as the first one of the process."""
    _numbers.first = _numbers.warned = False
    _numbers.intra = _numbers.inter = 0
