"""The session of the tuning guides, and a graph of matmul and reduce_sum."""

import numpy as np

import treadle.compat.tensorflow as tf

NUM_PARALLEL_EXEC_UNITS = 2

config = tf.ConfigProto(
    intra_op_parallelism_threads=NUM_PARALLEL_EXEC_UNITS,
    inter_op_parallelism_threads=2,
    allow_soft_placement=True,
    device_count={"CPU": NUM_PARALLEL_EXEC_UNITS},
)
session = tf.Session(config=config)

left = np.random.default_rng(1).standard_normal((300, 400)).astype(np.float32)
right = np.random.default_rng(2).standard_normal((400, 200)).astype(np.float32)

a = tf.placeholder(tf.float32, shape=(None, 400))
b = tf.Variable(right)
with tf.device("/GPU:0"):
    product = tf.matmul(a, b)
rows = tf.reduce_sum(product, axis=1)
columns = tf.reduce_sum(product, axis=0)
total = tf.reduce_sum(rows) + tf.reduce_sum(columns)

session.run(tf.global_variables_initializer())
results = session.run([rows, columns, total], feed_dict={a: left})
print(results[2])
session.close()
