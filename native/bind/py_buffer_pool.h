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
