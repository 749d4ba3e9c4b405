#include "worker/train/prove/report.hpp"

#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <utility>

#include "common/counted.hpp"

namespace roll::train {
namespace {

// The quantities of a record, and their descriptions.
constexpr std::array<std::pair<const char*, const char*>, 12> kQuantities = {
    {{"loss", "loss"},
     {"divergence", "divergence from the teacher"},
     {"grad_norm", "gradient norm"},
     {"clip_factor", "clip factor"},
     {"grad_zeros", "number of zero gradients"},
     {"tokens", "number of targets"},
     {"grad", "gradient"},
     {"weight", "weight"},
     {"norms", "norm"},
     {"exp_avg", "first moment"},
     {"exp_avg_sq", "second moment"},
     {"momentum_buffer", "momentum"}}};

std::string number_text(double number) {
    char text[40];
    std::snprintf(text, sizeof text, "%.17g", number);
    return text;
}

std::string short_text(double number) {
    char text[40];
    std::snprintf(text, sizeof text, "%.6g", number);
    return text;
}

std::string error_text(double error) {
    char text[40];
    std::snprintf(text, sizeof text, "%.1e", error);
    return text;
}

// Returns the number as JSON. NaN and infinity become null, because JSON has no such numbers.
OrderedJson number_json(double number) {
    return std::isfinite(number) ? OrderedJson(number) : OrderedJson();
}

// Splits the name "STEP.QUANTITY.NAME" into its parts. Steps are numbered from 1; the step of an
// evaluation is null.
OrderedJson quantity_json(const std::string& name) {
    const std::size_t dot = name.find('.');
    const bool is_step = std::isdigit(static_cast<unsigned char>(name[0])) != 0;
    const std::string rest = name.substr(dot + 1), kind = rest.substr(0, rest.find('.'));
    OrderedJson json;
    json["step"] = is_step ? OrderedJson(std::stoi(name) + 1) : OrderedJson();
    json["quantity"] = kind;  // kept if kQuantities has no description, as for some states
    for (const auto& [known, words] : kQuantities)
        if (kind == known) json["quantity"] = words;
    json["tensor"] = kind == rest ? OrderedJson() : OrderedJson(rest.substr(kind.size() + 1));
    return json;
}

OrderedJson difference_json(const Difference& difference) {
    OrderedJson json = quantity_json(difference.name);
    json["index"] = difference.index;
    json["value"] = number_json(difference.seen);
    json["expected"] = number_json(difference.expected);
    json["error"] = number_json(difference.error);
    json["copies_differ"] = difference.of_copies;
    return json;
}

OrderedJson layout_json(const Proof& proof) {
    const spec::TrainSpec& spec = proof.job.spec;
    const spec::ParallelSpec& p = spec.parallel;
    return {{"ranks", p.replicas() * p.tp * p.pp},
            {"dp", p.dp},
            {"tp", p.tp},
            {"cp", p.cp},
            {"pp", p.pp},
            {"vpp", p.vpp},
            {"sequence", p.sequence},
            {"zero", p.zero},
            {"schedule", spec::name_of(p.schedule)},
            {"microbatches", spec.microbatches()},
            {"layers", proof.layers}};
}

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
    return text;
}

std::string quantity_text(const OrderedJson& quantity) {
    std::string text =
        quantity["step"].is_null() ? "evaluation, " : "step " + quantity["step"].dump() + ", ";
    text += quantity["quantity"].get<std::string>();
    if (!quantity["tensor"].is_null()) text += " of " + quantity["tensor"].get<std::string>();
    return text;
}

std::string value_text(const OrderedJson& value) {
    return value.is_null() ? "not finite" : number_text(value.get<double>());
}

std::string difference_text(const OrderedJson& difference) {
    std::string text = quantity_text(difference);
    if (!difference["index"].empty()) text += ", element " + difference["index"].dump();
    const bool copies = difference["copies_differ"].get<bool>();
    text += copies ? ": the copies of this tensor on two ranks are " : ": ";
    text += value_text(difference["value"]) + (copies ? " and " : " in the layout, ") +
            value_text(difference["expected"]) + (copies ? "" : " on one rank");
    const OrderedJson& error = difference["error"];
    return text + "; error " + (error.is_null() ? "not finite" : error_text(error.get<double>()));
}

// Returns the numbers of layers of the chunks as text. Writes equal numbers in a row as "16 x 1".
std::string layers_text(const OrderedJson& layers) {
    std::vector<std::string> words;
    for (std::size_t i = 0, run = 0; i < layers.size(); i += run) {
        for (run = 1; i + run < layers.size() && layers[i + run] == layers[i];) ++run;
        words.push_back((run > 1 ? std::to_string(run) + " x " : "") + layers[i].dump());
    }
    return joined(words);
}

std::string layout_text(const OrderedJson& layout) {
    const std::string cp = layout["cp"] == 1 ? "" : " x cp " + layout["cp"].dump();
    std::string text = "dp " + layout["dp"].dump() + " x pp " + layout["pp"].dump() + cp +
                       " x tp " + layout["tp"].dump() + " = " +
                       counted(layout["ranks"].get<int>(), "rank");
    if (layout["vpp"] != 1) text += ", vpp " + layout["vpp"].dump();
    if (layout["sequence"].get<bool>()) text += ", sequence";
    if (layout["zero"] != 0) text += ", zero " + layout["zero"].dump();
    if (layout["pp"] != 1) text += ", " + layout["schedule"].get<std::string>();
    return text + "; micro-batches of a replica: " + layout["microbatches"].dump() +
           "; layers of the chunks: " + layers_text(layout["layers"]);
}

}  // namespace

OrderedJson proof_json(const spec::TrainSpec& spec, const Proof& proof) {
    OrderedJson json;
    json["schema"] = "roll.prove/1";
    json["name"] = spec.name;
    json["proven"] = proof.holds();
    json["layout"] = layout_json(proof);
    json["cut"] = OrderedJson::array();
    for (const Cut& cut : proof.job.cuts)
        json["cut"].push_back({{"key", cut.key}, {"from", cut.from}, {"to", cut.to}});
    json["steps"] = proof.steps;
    json["clip_grad"] = proof.clip_grad;
    json["tensors"] = proof.tensors;
    json["numbers"] = proof.numbers;
    json["limit"] = kProofLimit;
    json["worst"] = OrderedJson();
    if (!proof.worst.name.empty()) {
        json["worst"] = quantity_json(proof.worst.name);
        json["worst"]["error"] = number_json(proof.worst.error);
    }
    json["differing"] = proof.differing;
    json["checkpoints"] = proof.checkpoints;
    json["first_run"] = proof.first_run.empty() ? OrderedJson() : OrderedJson(proof.first_run);
    json["first"] = proof.first ? difference_json(*proof.first) : OrderedJson();
    json["first_tensor"] =
        proof.first_tensor ? difference_json(*proof.first_tensor) : OrderedJson();
    json["fault"] = proof.fault.empty() ? OrderedJson() : OrderedJson(proof.fault);
    json["seconds"] = proof.seconds;
    return json;
}

std::string failure_text(const OrderedJson& p) {
    if (!p["fault"].is_null())
        return "the ranks of the layout cannot train together: " + p["fault"].get<std::string>();
    const auto run = p["first_run"].get<std::string>();
    std::string text = (run == "layout" ? "the layout does not compute what one rank computes: "
                                        : run +
                                              " does not compute what an uninterrupted run on "
                                              "one rank computes: ") +
                       difference_text(p["first"]);
    if (p["first"]["tensor"].is_null() && !p["first_tensor"].is_null())
        text += "; the first tensor: " + difference_text(p["first_tensor"]);
    return text;
}

std::string proof_text(const OrderedJson& p) {
    const bool holds = p["proven"].get<bool>();
    std::string text = p["name"].get<std::string>() + (holds ? ": proven\n" : ": NOT proven\n");
    text += "layout      " + layout_text(p["layout"]) + "\n";
    std::vector<std::string> cuts;
    for (const OrderedJson& cut : p["cut"])
        cuts.push_back(cut["key"].get<std::string>() + " " + short_text(cut["from"].get<double>()) +
                       " to " + short_text(cut["to"].get<double>()));
    text += "cut         " + (cuts.empty() ? "nothing" : joined(cuts)) + "\n";
    text += "compared    " + counted(p["tensors"].get<std::int64_t>(), "tensor") + " and " +
            counted(p["numbers"].get<std::int64_t>(), "number") + " of " +
            counted(p["steps"].get<int>(), "step") +
            " and an evaluation with those of one rank, in float64; gradients clipped at " +
            short_text(p["clip_grad"].get<double>()) + "\n";
    if (p["checkpoints"].get<bool>())
        text +=
            "checkpoints were compared, too: one rank resumed the layout's checkpoint, and the "
            "layout "
            "resumed one rank's checkpoint\n";
    if (holds)
        text += "worst error " + error_text(p["worst"]["error"].get<double>()) + " (" +
                quantity_text(p["worst"]) + "); the limit is " +
                error_text(p["limit"].get<double>()) + "\n";
    else if (p["fault"].is_null())
        text += "differ      " + p["differing"].dump() + " quantities\n";
    char took[40];
    std::snprintf(took, sizeof took, "took        %.1f s", p["seconds"].get<double>());
    return text + took;
}

}  // namespace roll::train
