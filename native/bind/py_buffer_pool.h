// PyBufferPool: a BufferPool as Python sees it.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "treadle/buffer_pool.h"

struct PyBufferPool {
    std::shared_ptr<treadle::BufferPool> pool;
};

// to_object() returns the lease as an object that is a buffer.
nanobind::object to_object(treadle::Lease lease);

// taken_from() returns the lease of an object that to_object() has returned, which no longer owns it. Throws
// nb::cast_error for others.
treadle::Lease taken_from(nanobind::handle object);
