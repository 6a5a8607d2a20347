#include "treadle/template_bodies.h"

#include <utility>

#include "treadle/control_flow.h"
#include "treadle/loop_step.h"

namespace treadle {

std::vector<HostCall> make_hosts(const ProgramTemplate& made_by, const ProgramTemplate::Sizes& sizes,
                                 std::span<const MakeHost> makers) {
    std::vector<HostCall> hosts;
    for (const std::size_t step : made_by.hosts()) hosts.push_back(makers[hosts.size()](made_by.args(sizes, step)));
    return hosts;
}

std::shared_ptr<Program> TemplateBody::bind(std::span<const std::int64_t> symbols) const {
    const ProgramTemplate::Sizes sizes = program_template->evaluate(symbols);
    std::vector<HostCall> calls = make_hosts(*program_template, sizes, hosts);
    return program_template->bind(sizes, {}, max_workers, calls, true);
}

MakeHost branch_maker(std::size_t symbols, std::size_t condition, std::vector<std::size_t> operands, TemplateBody yes,
                      TemplateBody no) {
    return [=, operands = std::move(operands), yes = std::move(yes), no = std::move(no)](std::vector<std::int64_t> args) {
        const std::span<const std::int64_t> values = std::span(args).first(symbols);
        return make_branch(condition, {yes.bind(values), operands}, {no.bind(values), operands});
    };
}

MakeHost loop_maker(std::size_t symbols, LoopCounts counts, TemplateBody body) {
    return [=, body = std::move(body)](std::vector<std::int64_t> args) {
        Taken<std::int64_t> next{std::span<const std::int64_t>(args)};
        LoopSpec spec;
        spec.body = body.bind(next.next(symbols));
        spec.has_limit = counts.has_limit;
        spec.has_condition = counts.has_condition;
        spec.decides = counts.decides;
        spec.most = next.one();
        const auto taken = [&](std::size_t count) {
            const auto sizes = next.next(count);
            return std::vector<std::int64_t>(sizes.begin(), sizes.end());
        };
        spec.carried = taken(counts.carried);
        spec.stacked = taken(counts.stacked);
        spec.sliced = taken(counts.sliced);
        spec.captured = counts.captured;
        return make_loop(std::move(spec));
    };
}

}  // namespace treadle
