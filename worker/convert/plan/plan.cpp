#include "worker/convert/plan/plan.hpp"

#include <algorithm>
#include <tuple>

#include "common/check.hpp"
#include "common/counted.hpp"

namespace roll::convert {
namespace {

struct Box {
    Shape begin;
    Shape size;
};

// Returns the intersection of two boxes (blocks of a tensor); nullopt if the intersection is empty.
// Boxes of scalars have no dims and always intersect.
std::optional<Box> meet(const Piece& a, const Piece& b) {
    Box box{a.begin, a.size};
    for (std::size_t dim = 0; dim < a.begin.size(); ++dim) {
        const std::int64_t begin = std::max(a.begin[dim], b.begin[dim]);
        const std::int64_t end = std::min(a.begin[dim] + a.size[dim], b.begin[dim] + b.size[dim]);
        if (begin >= end) return std::nullopt;
        box.begin[dim] = begin;
        box.size[dim] = end - begin;
    }
    return box;
}

// Maps a point of the HuggingFace tensor to its coordinates in the stored tensor.
Shape in_stored(const Piece& piece, const Shape& point) {
    Shape place = piece.stored_begin;
    for (std::size_t dim = 0; dim < point.size(); ++dim)
        place[piece.placing.axis(dim)] += (point[dim] - piece.begin[dim]) * piece.placing.step(dim);
    return place;
}

struct Holder {
    std::size_t source = 0;
    const Piece* piece = nullptr;
};

// Finds the holders of each HuggingFace tensor, that is, the source tensors that hold a block of
// it. If several holders have the same block, only the first of them is read; the others must be
// equal to the first.
class Holders {
  public:
    Holders(const Source& source, Plan& plan) : of_(source.model.tensors.size()) {
        std::map<std::pair<int, std::pair<Shape, Shape>>, Holder> boxes;
        for (std::size_t i = 0; i < source.tensors.size(); ++i) {
            for (const Piece& piece : source.tensors[i].stored.pieces) {
                const auto [place, first] =
                    boxes.try_emplace({piece.hf, {piece.begin, piece.size}}, Holder{i, &piece});
                if (first) {
                    of_[static_cast<std::size_t>(piece.hf)].push_back({i, &piece});
                } else {
                    plan.comparisons.push_back({place->second.source, i,
                                                place->second.piece->stored_begin,
                                                piece.stored_begin, piece.size});
                }
            }
        }
    }

    // Checks that the holders of each HuggingFace tensor cover it without gaps or overlaps. Fails
    // with Corrupt if they do not.
    Result<void> check(const Source& source) const {
        for (std::size_t i = 0; i < of_.size(); ++i) {
            std::int64_t held = 0;
            for (const Holder& holder : of_[i]) held += tensor::volume(holder.piece->size);
            const families::HfTensor& tensor = source.model.tensors[i];
            if (source.matching.absent.contains(static_cast<int>(i))) continue;
            if (held != tensor::volume(tensor.shape))
                return fail(ErrorCode::Corrupt, source.directory.string() + ": " +
                                                    std::to_string(held) + " of the " +
                                                    std::to_string(tensor::volume(tensor.shape)) +
                                                    " elements of " + tensor.name + " were found");
        }
        return {};
    }

    const std::vector<Holder>& of(int hf) const { return of_[static_cast<std::size_t>(hf)]; }

  private:
    std::vector<std::vector<Holder>> of_;
};

Result<void> cover(const Piece& piece, const Holders& holders, TargetTensor& target) {
    std::int64_t covered = 0;
    for (const Holder& holder : holders.of(piece.hf)) {
        const auto box = meet(piece, *holder.piece);
        if (!box) continue;
        covered += tensor::volume(box->size);
        target.copies.push_back({holder.source, in_stored(*holder.piece, box->begin),
                                 in_stored(piece, box->begin), box->size, piece.hf, box->begin,
                                 holder.piece->placing, piece.placing,
                                 piece.add - holder.piece->add});
    }
    if (covered == tensor::volume(piece.size)) return {};
    return fail(
        ErrorCode::Corrupt,
        target.info.name + ": the source lacks a part of this tensor; copy the source again");
}

// Fails if a constant would be added to a tensor whose type is not a floating-point type.
Result<void> check_changes(const Source& source, const TargetTensor& target) {
    for (const Copy& copy : target.copies) {
        const tensor::TensorInfo& info = source.tensors[copy.source].view.info;
        if (copy.add != 0 && !tensor::is_castable(info.dtype))
            return fail(ErrorCode::InvalidArgument,
                        info.name + " is of type " + name_of(info.dtype) +
                            "; a constant can be added only to floating-point tensors");
    }
    return {};
}

// Fails if a copy would reorder elements that are smaller than a byte, or would split their bytes.
// Only whole bytes can be copied.
Result<void> check_whole_bytes(const Source& source, const TargetTensor& target) {
    for (const Copy& copy : target.copies) {
        const tensor::StridedView& view = source.tensors[copy.source].view;
        const std::int64_t bits = tensor::bits_of(view.info.dtype);
        if (bits >= 8) continue;
        // index of the last dim; not used for scalars
        const std::size_t last = copy.size.size() - 1;
        const auto whole = [&](std::int64_t elements) { return elements * bits % 8 == 0; };
        if (!copy.size.empty() && copy.source_placing.axis(last) == last &&
            copy.target_placing.axis(last) == last && copy.source_placing.step(last) == 1 &&
            copy.target_placing.step(last) == 1 && view.strides[last] == 1 &&
            whole(copy.size[last]) && whole(copy.source_begin[last]) &&
            whole(copy.target_begin[last]) && whole(view.info.shape[last]) &&
            whole(target.info.shape[last]))
            continue;
        return fail(ErrorCode::InvalidArgument,
                    view.info.name + " is of type " + name_of(view.info.dtype) +
                        "; it cannot be split or reordered for " + target.info.name +
                        ", because one byte holds several of its elements");
    }
    return {};
}

tensor::DType own_dtype(const Source& source, const Copy& copy) {
    const auto kept = source.overlay.dtypes.find(copy.hf);
    return kept == source.overlay.dtypes.end() ? source.tensors[copy.source].view.info.dtype
                                               : kept->second;
}

// Returns the type of a target tensor. Returns `otherwise` for a tensor that consists of padding
// only.
Result<tensor::DType> dtype_of(const Source& source, const TargetTensor& target,
                               tensor::DType otherwise, std::optional<tensor::DType> dtype) {
    const tensor::DType from =
        target.copies.empty() ? otherwise : own_dtype(source, target.copies.front());
    for (const Copy& copy : target.copies) {
        const tensor::DType other = own_dtype(source, copy);
        if (other != from && !dtype)
            return fail(ErrorCode::InvalidArgument,
                        target.info.name + " would combine types " + name_of(from) + " and " +
                            name_of(other) + " (" + source.tensors[copy.source].stored.name + ")",
                        "give a --dtype");
    }
    if (!dtype || !tensor::is_castable(from)) return from;
    const bool keeps_fp32 =
        !target.copies.empty() && source.model.keeps_fp32.contains(target.copies.front().hf);
    return keeps_fp32 ? tensor::DType::F32 : *dtype;
}

// Returns the type of a target's 8-bit values or of their scales: the source's type if the source
// has the tensor in 8-bit blocks and no adapter changes it. Otherwise F8_E4M3 for values, and F32
// for scales.
tensor::DType dtype_of_blocks(const Source& source, const TargetTensor& target) {
    const Copy& weight = target.copies.front();
    const auto known = source.overlay.scales.find(weight.hf);
    const bool is_known =
        known != source.overlay.scales.end() && !source.overlay.deltas.contains(weight.hf);
    if (target.making == Making::Scales)
        return is_known ? known->second.scales.info.dtype : tensor::DType::F32;
    return is_known ? source.tensors[weight.source].view.info.dtype : tensor::DType::F8E4M3;
}

Result<void> check_written_once(const Plan& plan) {
    std::vector<const TargetTensor*> sorted;
    for (const TargetTensor& target : plan.tensors) sorted.push_back(&target);
    const auto place = [](const TargetTensor* target) {
        return std::tie(target->file, target->section, target->info.name, target->origin);
    };
    std::sort(sorted.begin(), sorted.end(),
              [&](const auto* a, const auto* b) { return place(a) < place(b); });
    const auto twice =
        std::adjacent_find(sorted.begin(), sorted.end(),
                           [&](const auto* a, const auto* b) { return place(a) == place(b); });
    if (twice == sorted.end()) return {};
    return fail(ErrorCode::InvalidArgument, (*twice)->info.name + " would be written twice");
}

std::string place_of(const Stored& stored) {
    if (!stored.whole.empty()) return stored.name;  // a chunk has the key of the whole tensor
    return stored.file + (stored.section.empty() ? "" : " " + stored.section) +
           (stored.file.empty() ? "" : " ") + stored.name;
}

// Returns the places (place_of()) of the target tensors that need a tensor which the checkpoint
// lacks. Lists these target tensors in the plan as left out. All chunks of a tensor have the same
// place, so a chunked tensor is left out completely.
std::set<std::string> incomplete(const Source& source, const std::vector<Stored>& layout,
                                 Plan& plan) {
    std::set<std::string> places;
    if (source.matching.absent.empty()) return places;
    for (const Stored& stored : layout)
        for (const Piece& piece : stored.pieces)
            if (source.matching.absent.contains(piece.hf)) places.insert(place_of(stored));
    plan.left_out.assign(places.begin(), places.end());
    for (const Stored& stored : layout)
        for (const Piece& piece : stored.pieces)
            if (places.contains(place_of(stored)))
                plan.left_out_hf.insert(
                    source.model.tensors[static_cast<std::size_t>(piece.hf)].name);
    return places;
}

void tally(Plan& plan) {
    std::map<tensor::DType, std::int64_t> bytes;
    for (const TargetTensor& target : plan.tensors) {
        const std::int64_t size = tensor::byte_count(target.info.dtype, target.info.shape).value();
        const bool is_state = target.info.name.starts_with("optimizer.");
        if (target.making == Making::Copies && !is_state) bytes[target.info.dtype] += size;
        plan.bytes += size;
    }
    const auto most =
        std::max_element(bytes.begin(), bytes.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most != bytes.end()) plan.dtype = most->first;
}

}  // namespace

Result<Plan> make_plan(const Source& source, std::vector<Stored> layout,
                       std::optional<tensor::DType> dtype) {
    Plan plan;
    const Holders holders(source, plan);
    ROLL_TRY_VOID(holders.check(source));
    for (const families::HfTensor& tensor : source.model.tensors)
        plan.parameters += tensor::volume(tensor.shape);
    const std::set<std::string> skipped = incomplete(source, layout, plan);
    std::map<std::string, std::size_t> files;
    for (Stored& one : layout) {
        // Move the tensor out of the layout, so that its memory is freed while the plan grows.
        const Stored stored = std::move(one);
        if (stored.optional) continue;
        const auto [place, added] = files.emplace(stored.file, plan.files.size());
        if (added) plan.files.push_back({stored.file, {}, {}});
        if (!skipped.empty() && skipped.contains(place_of(stored))) continue;
        TargetFile& file = plan.files[place->second];
        TargetTensor target{place->second,
                            file.tensors.size(),
                            stored.section,
                            {stored.name, tensor::DType::F32, stored.shape},
                            stored.whole,
                            stored.origin,
                            {},
                            false};
        std::int64_t filled = 0;
        for (const Piece& piece : stored.pieces) {
            ROLL_TRY_VOID(cover(piece, holders, target));
            filled += tensor::volume(piece.size);
        }
        target.padded = filled < tensor::volume(stored.shape);
        ROLL_TRY_VOID(check_changes(source, target));
        ROLL_TRY_VOID(check_whole_bytes(source, target));
        target.making = stored.making;
        target.block_rows = stored.block_rows;
        target.block_columns = stored.block_columns;
        if (stored.pieces.empty()) {
            // the target is a gap in a bucket of the optimizer's state
            target.info.dtype = tensor::DType::F32;
        } else if (stored.making == Making::Copies) {
            const SourceTensor& first = source.tensors[holders.of(stored.pieces[0].hf)[0].source];
            ROLL_TRY(target.info.dtype, dtype_of(source, target, first.view.info.dtype, dtype));
        } else {
            target.info.dtype = dtype_of_blocks(source, target);
        }
        file.tensors.push_back(target.info);
        Shape& in_file = file.tensors.back().shape;
        if (stored.flat)
            in_file = {tensor::volume(stored.shape)};
        else if (in_file.size() < stored.origin.size())
            in_file.insert(in_file.begin(), stored.origin.size() - in_file.size(), 1);
        file.sections.push_back(target.section);
        plan.tensors.push_back(std::move(target));
    }
    std::stable_sort(plan.tensors.begin(), plan.tensors.end(),
                     [](const auto& a, const auto& b) { return a.file < b.file; });
    ROLL_TRY_VOID(check_written_once(plan));
    tally(plan);
    return plan;
}

Disagreement disagreement_of(const Source& source, const Plan& plan) {
    Disagreement all;
    for (const int number : source.matching.absent)
        all.unexpected.push_back(source.model.tensors[static_cast<std::size_t>(number)].name);
    all.missing = source.matching.surplus;
    all.left_out = plan.left_out;
    return as_told(source.matching.strictness, std::move(all));
}

std::string to_text(const Source& source, const Plan& plan) {
    std::string text;
    for (const TargetTensor& target : plan.tensors) {
        text += plan.files[target.file].path + " " + target.info.name + " " +
                name_of(target.info.dtype) + " " + tensor::to_string(target.info.shape) + " <-";
        std::size_t last = source.tensors.size();
        for (const Copy& copy : target.copies) {
            if (copy.source == last) continue;
            last = copy.source;
            text += " " + source.tensors[copy.source].stored.name;
        }
        text += "\n";
    }
    for (const Dropped& dropped : source.matching.dropped)
        text += "dropped " + dropped.file + " " + dropped.name + ": " + dropped.rule + "\n";
    return text + counted(plan.tensors.size(), "tensor") + ", " + std::to_string(plan.bytes) +
           " bytes in " + counted(plan.files.size(), "file") + "; the conversion compares " +
           counted(plan.comparisons.size(), "replica") + "\n";
}

}  // namespace roll::convert
