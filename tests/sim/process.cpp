#include "tests/sim/process.hpp"

namespace roll::sim {

using core::Outcome;

bool Answer::names(const AttemptKey& key) const {
    const auto is_it = [&](const Order& order) { return order.key == key; };
    return keep.contains(key) || stop.contains(key) || std::ranges::any_of(start, is_it);
}

void ProcessRules::end(Copy& copy, Outcome outcome, int exit_code) const {
    for (int pattern = 0; exit_code != 0 && pattern < 3; ++pattern)
        if (random_.percent(20)) copy.matched.push_back(pattern);
    copy.ended = true;
    copy.outcome = outcome;
    copy.exit_code = exit_code;
}

void ProcessRules::plan(Copy& copy, const Order& order, int now) const {
    copy.trains = order.spec.kind == spec::JobKind::Train;
    copy.exports = order.spec.kind == spec::JobKind::Convert;
    copy.up_at = now + random_.between(0, 3);
    copy.end_at = copy.up_at + random_.between(0, 40);
    if (!order.checkpoints.empty()) copy.step = order.checkpoints.back().step;
    // The newest cannot be read: start from the one before it.
    if (faults_ && order.checkpoints.size() > 1 && random_.percent(20))
        copy.step = order.checkpoints[order.checkpoints.size() - 2].step;
    if (!faults_) return;
    const int fate = random_.between(1, 100);
    if (fate <= 12) copy.planned = Outcome::App;
    if (fate > 12 && fate <= 26) copy.planned = Outcome::Infra;
    if (fate > 26 && fate <= 40) copy.planned = Outcome::Yielded;
    if (fate > 40 && fate <= 42) copy.planned = Outcome::Invalid;
    if (fate > 95) copy.end_at = now + 400;  // longer than any limit
}

// As the real one: never the same token twice, and only on an answer that gives a bound below the
// lease.
bool ProcessRules::start(Process& p, const Order& order, std::int64_t sent_at, std::int64_t beats,
                         int now) const {
    if (p.ran.contains(order.key) || beats - sent_at >= kLeaseBeats) return false;
    p.ran.insert(order.key);
    Copy copy{.key = order.key, .member = order.member};
    copy.nodes = static_cast<std::size_t>(order.nodes);
    copy.slots = order.place.slots;
    copy.gpus = order.place.gpus;
    copy.gpu_percent = order.place.gpu_percent;
    copy.base_beats = sent_at;
    plan(copy, order, now);
    p.copies[order.key] = std::move(copy);
    return true;
}

// Keeps two recorded checkpoints of its own; says a deletion until the ledger has it.
void ProcessRules::prune(Copy& copy, const Answer& answer) {
    const auto known = answer.recorded.find(copy.key);
    if (known == answer.recorded.end()) return;
    std::erase_if(copy.unrecorded,
                  [&](const Written& w) { return w.deleted && !known->second.contains(w.step); });
    const bool pruning = std::ranges::any_of(copy.unrecorded, &Written::deleted);
    if (known->second.size() > 2 && !pruning && copy.alive())
        copy.unrecorded.push_back({*known->second.begin(), copy.key.token, true});
}

std::vector<AttemptKey> ProcessRules::on_answer(Process& p, const Answer& answer,
                                                std::int64_t beats, int now) const {
    if (answer.incarnation < p.incarnation) return {};
    if (answer.incarnation == p.incarnation && answer.sequence < p.echoed) return {};
    p.incarnation = answer.incarnation;
    p.echoed = answer.sequence;
    const auto sent = p.sent.find(answer.sequence);
    if (sent == p.sent.end()) return {};
    for (auto& [key, copy] : p.copies) {
        if (answer.names(key)) copy.base_beats = std::max(copy.base_beats, sent->second);
        if (answer.fenced.contains(key) && copy.alive()) end(copy, Outcome::Stopped, 137);
        if (answer.stop.contains(key)) copy.stopping = true;
        if (const auto ask = answer.save.find(key); ask != answer.save.end()) {
            if (ask->second > copy.told) copy.asked = ask->second;
            copy.told = std::max(copy.told, ask->second);
        }
        if (const auto known = answer.recorded.find(key); known != answer.recorded.end()) {
            std::erase_if(copy.unrecorded, [&](const Written& w) {
                return !w.deleted && known->second.contains(w.step);
            });
        }
        if (answer.exported.contains(key)) copy.exported.clear();
        prune(copy, answer);
    }
    // A stop of what never came: it never will, and that is said.
    for (const AttemptKey& key : answer.stop) {
        if (!p.ran.insert(key).second) continue;
        Copy& copy = p.copies[key];
        copy.key = key;
        end(copy, Outcome::Stopped, 1);
    }
    std::vector<AttemptKey> started;
    for (const Order& order : answer.start) {
        if (start(p, order, sent->second, beats, now)) started.push_back(order.key);
    }
    std::erase_if(p.copies, [&](const auto& item) {
        const Copy& copy = item.second;
        return copy.ended && copy.end_said != 0 && copy.end_said <= answer.sequence &&
               !answer.names(item.first);
    });
    p.sent.erase(p.sent.begin(), sent);
    return started;
}

void ProcessRules::write_checkpoint(Copy& copy) const {
    if (!copy.trains || copy.member != 0) return;
    if (copy.step >= 400 && copy.asked == 0) return;  // it need not write more by itself
    copy.step += 10;
    copy.unrecorded.push_back({copy.step, copy.key.token, false, std::exchange(copy.asked, 0),
                               random_.percent(50) ? random_.between(1, 9000) : 0});
}

void ProcessRules::live(Copy& copy, const Peers& peers, std::int64_t beats, int now) const {
    if (copy.ended) return;
    const auto bound = beats - copy.base_beats;
    if (bound >= kKillBeats) return end(copy, Outcome::Infra, 137);
    if (copy.stopping && random_.percent(60)) {
        const bool saves = copy.trains && random_.percent(50);
        if (saves) write_checkpoint(copy);
        return end(copy, saves ? Outcome::Yielded : Outcome::Stopped, saves ? 75 : 143);
    }
    if (bound >= kLeaseBeats) return;  // publishes nothing
    if (!copy.up && now >= copy.up_at) copy.up = true;
    if (!copy.up) return;
    if (random_.percent(10) || copy.asked > 0) write_checkpoint(copy);
    if (!peers.all_done_or_alive) {
        if (random_.percent(20)) end(copy, Outcome::Infra, 76);
        return;  // hangs in a collective otherwise
    }
    if (now < copy.end_at) return;
    if (copy.planned == Outcome::Done || copy.planned == Outcome::Yielded) write_checkpoint(copy);
    if (copy.exports && copy.planned == Outcome::Done) copy.exported = "/export";
    end(copy, copy.planned, copy.planned == Outcome::Done ? 0 : 1);
}

Heartbeat ProcessRules::beat(Process& p, std::int64_t beats) {
    Heartbeat hb{.node = p.node, .session = p.session, .generation = p.generation};
    hb.slots = p.slots;
    hb.gpus = p.gpus;
    hb.segment = p.segment;
    hb.gpu_numa = p.gpu_numa;
    hb.pilot = p.pilot;
    hb.sequence = ++p.sequence;
    p.sent[p.sequence] = beats;
    for (auto& [key, copy] : p.copies) {
        if (copy.alive() && beats - copy.base_beats >= kLeaseBeats) hb.below_lease = false;
        if (copy.ended && copy.end_said == 0) copy.end_said = p.sequence;
        hb.running.push_back(copy);
    }
    return hb;
}

}  // namespace roll::sim
