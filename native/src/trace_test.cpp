#include "treadle/trace.h"

#include <map>

#include "treadle/test_programs.h"

namespace treadle::testing {

TREADLE_TEST(nothing_is_recorded_while_tracing_is_off) {
    Team team("t", {4, 4});
    RandomDag dag(1, 30);
    dag.run(team);
    trace_start();
    CHECK_EQUAL(0u, trace_stop().size());
    dag.run(team);
    CHECK_EQUAL(0u, trace_stop().size());
}

TREADLE_TEST_WORKERS(events_count_each_chunk_and_do_not_overlap_on_a_slot) {
    Team team("t", {workers, workers});
    RandomDag dag(4, 60, 500);
    dag.run(team);
    trace_start();
    dag.run(team);
    dag.run(team, Request(Limits{1, 1}));
    const auto events = trace_stop();
    std::map<std::pair<std::uint64_t, std::int64_t>, std::int64_t> drawn;
    std::map<std::int64_t, std::int64_t> busy_until;
    for (const Event& event : events) {
        CHECK_EQUAL(dag.program().id(), event.program);
        CHECK(event.slot >= 0 && event.slot < workers);
        CHECK(event.start_ns >= busy_until[event.slot]);
        CHECK(event.end_ns >= event.start_ns);
        busy_until[event.slot] = event.end_ns;
        drawn[{event.run, event.step}] += event.chunks;
    }
    CHECK_EQUAL(2 * dag.program().steps().size(), drawn.size());
    for (const auto& [key, chunks] : drawn) {
        CHECK_EQUAL(dag.program().steps()[static_cast<std::size_t>(key.second)].chunks, chunks);
    }
}

}  // namespace treadle::testing
