#include "worker/convert/write/files.hpp"

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/files.hpp"
#include "common/tensor/output_file.hpp"
#include "common/tensor/safetensors.hpp"
#include "worker/formats/bytes_tokenizer.hpp"
#include "worker/formats/hf.hpp"
#include "worker/formats/megatron.hpp"
#include "worker/formats/torch_file.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;

class SafetensorsWriter : public TargetWriter {
  public:
    SafetensorsWriter(tensor::OutputFile file, std::vector<std::int64_t> begins)
        : file_(std::move(file)),
          next_(std::move(begins)) {}
    Result<void> append(std::size_t ordinal, std::span<const std::byte> bytes) override {
        ROLL_TRY_VOID(file_.write_at(next_[ordinal], bytes));
        next_[ordinal] += static_cast<std::int64_t>(bytes.size());
        return {};
    }
    Result<void> finish() override { return file_.finish(); }

  private:
    tensor::OutputFile file_;
    std::vector<std::int64_t> next_;
};

// Adds an extra state with the value None for each linear layer. Megatron requires these states,
// but only TransformerEngine uses them.
void add_extra_states(formats::TorchSection& section) {
    std::set<std::string> names;
    for (const tensor::TensorInfo& info : section.tensors) {
        const std::string module = info.name.substr(0, info.name.rfind('.'));
        for (const char* kind : {".linear_qkv", ".linear_proj", ".linear_fc1", ".linear_fc2"})
            if (module.ends_with(kind)) names.insert(module + "._extra_state");
    }
    section.nones.assign(names.begin(), names.end());
}

Result<void> write(const fs::path& path, std::string_view content) {
    ROLL_TRY_VOID(make_directories(path.parent_path()));
    return write_file_atomically(path, content);
}

}  // namespace

Result<std::unique_ptr<TargetWriter>> create_safetensors(const fs::path& path,
                                                         const TargetFile& file,
                                                         const fs::path& earlier) {
    ROLL_TRY(const tensor::SafetensorsLayout layout,
             tensor::layout_safetensors(file.tensors, {{"format", "pt"}}));
    std::map<std::string_view, std::int64_t> begins;
    for (const tensor::SafetensorsEntry& entry : layout.header.entries)
        begins[entry.info.name] = entry.begin;
    std::vector<std::int64_t> in_order;
    for (const tensor::TensorInfo& info : file.tensors) in_order.push_back(begins.at(info.name));
    ROLL_TRY(tensor::OutputFile output, tensor::OutputFile::create(path, earlier));
    ROLL_TRY_VOID(output.write_at(0, tensor::as_bytes(layout.prefix)));
    return std::make_unique<SafetensorsWriter>(std::move(output), std::move(in_order));
}

Result<std::unique_ptr<TargetWriter>> create_torch(const fs::path& path, const TargetFile& file,
                                                   const fs::path& earlier) {
    std::vector<formats::TorchSection> sections;
    for (std::size_t i = 0; i < file.tensors.size(); ++i) {
        if (sections.empty() || sections.back().key != file.sections[i])
            sections.push_back({file.sections[i], {}, {}});
        sections.back().tensors.push_back(file.tensors[i]);
    }
    std::function<void(formats::PickleWriter&)> more;
    if (!file.args.is_null()) {
        const bool former = file.megatron_version < 3;
        for (formats::TorchSection& section : sections) {
            section.nested = former;
            if (!former) add_extra_states(section);
        }
        more = [&](formats::PickleWriter& out) {
            formats::write_megatron_state(out, file.args, file.megatron_version);
        };
    }
    ROLL_TRY(auto writer,
             formats::TorchFileWriter::create(path, std::move(sections), more, earlier));
    return std::make_unique<FormatWriter<formats::TorchFileWriter>>(std::move(writer));
}

Result<void> write_companion_files(const Source& source, const fs::path& directory) {
    const fs::path& from = source.companions.empty() ? source.directory : source.companions;
    for (const std::string& name : formats::companion_files(from)) {
        ROLL_TRY(const std::string content, read_regular_file(from / name));
        ROLL_TRY_VOID(write(directory / name, content));
    }
    for (const auto& [name, bytes] : source.storage.archived)
        if (formats::is_companion(name))
            ROLL_TRY_VOID(write(directory / name,
                                {reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    std::error_code error;
    if (!formats::has_bytes_tokenizer(source.config.hf_config) ||
        fs::exists(directory / "tokenizer.json", error))
        return {};
    for (const auto& [name, content] : formats::bytes_tokenizer_files())
        ROLL_TRY_VOID(write(directory / name, content));
    return {};
}

}  // namespace roll::convert
