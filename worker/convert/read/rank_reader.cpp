#include "worker/convert/read/rank_reader.hpp"

#include <algorithm>

#include "common/check.hpp"
#include "worker/convert/checkpoint/mca_layout.hpp"
#include "worker/convert/checkpoint/older_layouts.hpp"
#include "worker/formats/megatron.hpp"

namespace roll::convert {
namespace {

using formats::PickleId;
using formats::TorchFile;

constexpr std::size_t kDepthMax = 8;
// Maximum number of names in a state dict. The limit is needed because a small pickle whose dicts
// refer to each other can expand to a very large number of names.
constexpr std::size_t kNamesMax = 1'000'000;

bool is_vocabulary(const families::NativeTensor& tensor) {
    return tensor.name == "embedding.word_embeddings.weight" ||
           tensor.name == "output_layer.weight";
}

bool is_zero(const tensor::StridedView& view) {
    if (view.info.shape.size() != 1 || view.strides[0] != 1) return false;
    const auto bytes =
        static_cast<std::size_t>(view.info.shape[0] * (tensor::bits_of(view.info.dtype) / 8));
    return std::all_of(view.first, view.first + bytes,
                       [](std::byte one) { return one == std::byte{0}; });
}

// Flattens nested dicts of tensors into one state dict. Joins the keys with dots. Checkpoints older
// than Megatron core have nested dicts.
Result<void> flatten(const TorchFile& file, PickleId dict, const std::string& prefix,
                     std::size_t depth, std::size_t& names, formats::StateDict& into) {
    const std::vector<PickleId>* entries = file.pickle().entries_of(dict);
    ROLL_CHECK(entries != nullptr);
    for (std::size_t i = 0; i + 1 < entries->size(); i += 2) {
        if (++names > kNamesMax)
            return fail(ErrorCode::Corrupt,
                        "a state dict of the checkpoint has more than 1,000,000 names; copy the "
                        "file again");
        const formats::PickleNode& key = file.pickle().at((*entries)[i]);
        if (key.kind != formats::PickleKind::Text) continue;
        const PickleId value = (*entries)[i + 1];
        const std::string name = prefix + key.text;
        if (file.pickle().entries_of(value) != nullptr && depth < kDepthMax) {
            ROLL_TRY_VOID(flatten(file, value, name + ".", depth + 1, names, into));
            continue;
        }
        ROLL_TRY(auto view, file.tensor(value));
        if (view) {
            view->info.name = name;
            into.tensors.push_back(*std::move(view));
        } else {
            into.others.push_back(name);
        }
    }
    return {};
}

}  // namespace

Result<void> RankReader::read(std::shared_ptr<const TorchFile> file, const std::string& label,
                              const std::vector<std::string>& sections) {
    source_.storage.files.push_back(file);
    const formats::Pickle& pickle = file->pickle();
    if (!sections.empty() && !sections.front().empty())
        drop_run_state(source_, label, pickle, pickle.root(),
                       {"model", "args", "checkpoint_version", "iteration"});
    for (const std::string& section : sections) {
        const PickleId root = pickle.root();
        const PickleId* node = section.empty() ? &root : pickle.find(root, section);
        if (node == nullptr && section == "model0") node = pickle.find(root, "model");
        if (node == nullptr || pickle.entries_of(*node) == nullptr)
            return fail(ErrorCode::Corrupt,
                        label + " has no " + (section.empty() ? "state dict" : section));
        formats::StateDict dict;
        std::size_t names = 0;
        ROLL_TRY_VOID(flatten(*file, *node, "", 0, names, dict));
        Stored where;
        where.file = label;
        where.section = section;
        for (const tensor::StridedView& view : dict.tensors) ROLL_TRY_VOID(take(where, view));
        for (const std::string& name : dict.others) drop_or_refuse(label, name, nullptr);
    }
    return {};
}

Result<void> RankReader::take(const Stored& where, const tensor::StridedView& view) {
    const std::string name = older_spelling(formats::core_spelling(view.info.name));
    for (const std::string& spelling :
         {view.info.name, name, local_spelling(name), transformer_engine_spelling(name)}) {
        ROLL_TRY(const bool taken, matcher_.take(where, where.file, spelling, view));
        if (taken) return {};
    }
    tensor::StridedView renamed = view;
    renamed.info.name = name;
    ROLL_TRY(const bool grouped, matcher_.take_all(where, experts_of(renamed, source_.config)));
    if (grouped) return {};
    ROLL_TRY(const bool taken, take_interleaved(where, name, view));
    if (!taken) drop_or_refuse(where.file, name, &view);
    return {};
}

Result<bool> RankReader::take_interleaved(const Stored& where, const std::string& name,
                                          const tensor::StridedView& view) {
    const auto parts = static_cast<std::int64_t>(kInterleaved.size());
    if (view.info.shape.empty() || view.info.shape[0] % parts != 0) return false;
    for (std::size_t part = 0; part < kInterleaved.size(); ++part) {
        tensor::StridedView one = view;
        one.info.shape[0] /= parts;
        one.first += static_cast<std::int64_t>(part) * view.strides[0] *
                     (tensor::bits_of(view.info.dtype) / 8);
        one.strides[0] *= parts;
        ROLL_TRY(const bool taken,
                 matcher_.take(where, where.file, name + kInterleaved[part], one));
        if (!taken) return false;
    }
    return true;
}

void RankReader::drop_or_refuse(const std::string& file, const std::string& name,
                                const tensor::StridedView* view) {
    if (name.ends_with("_extra_state"))
        source_.matching.dropped.push_back({file, name, "TransformerEngine's state"});
    else if (name.ends_with("rotary_pos_emb.inv_freq") || name.ends_with(".rotary_emb.inv_freq"))
        source_.matching.dropped.push_back({file, name, "can be computed from the model's config"});
    else if (view != nullptr && name.ends_with("norm.bias") && is_zero(*view))
        source_.matching.dropped.push_back({file, name, "a bias of zeros"});
    else
        matcher_.add_unexpected(file, name);
}

std::map<std::string, std::vector<std::string>> sections_by_file(
    const std::vector<Stored>& expected) {
    std::map<std::string, std::vector<std::string>> sections;
    for (const Stored& stored : expected) {
        auto& of_file = sections[stored.file];
        if (of_file.empty() || of_file.back() != stored.section) of_file.push_back(stored.section);
    }
    return sections;
}

std::int64_t vocabulary_of(const Source& source) {
    const auto embedding = std::find_if(source.native.begin(), source.native.end(), is_vocabulary);
    return embedding == source.native.end() ? 0 : embedding->shape[0];
}

// Sets the number of vocabulary rows in the native and the HuggingFace shapes of the embedding and
// the output layer.
static void set_vocabulary(Source& source, std::int64_t rows) {
    for (families::NativeTensor& tensor : source.native) {
        if (!is_vocabulary(tensor)) continue;
        tensor.shape[0] = tensor.sources[0].shape[0] = rows;
        const int number = source.model.number.at(tensor.sources[0].name);
        source.model.tensors[static_cast<std::size_t>(number)].shape[0] = rows;
    }
}

void pad_vocabulary(Source& source, std::int64_t padded) { set_vocabulary(source, padded); }

void unpad_vocabulary(Source& source, std::vector<Stored>& expected, std::int64_t rows) {
    set_vocabulary(source, rows);
    for (Stored& stored : expected)
        std::erase_if(stored.pieces, [&](Piece& piece) {
            if (piece.size.empty()) return false;
            const auto& hf = source.model.tensors[static_cast<std::size_t>(piece.hf)];
            piece.size[0] = std::min(piece.size[0], hf.shape[0] - piece.begin[0]);
            return piece.size[0] <= 0;
        });
}

}  // namespace roll::convert
