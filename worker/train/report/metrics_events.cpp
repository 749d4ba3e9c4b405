#include "worker/train/report/metrics_events.hpp"

#include <array>
#include <bit>
#include <cstdio>

#include <unistd.h>

#include "common/time.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

// Encodes an Event in the wire format of protocol buffers; supports only the features that an Event
// needs. Field numbers are from tensorflow/core/util/event.proto, framework/summary.proto and
// framework/tensor.proto.
class Message {
  public:
    Message& number(int field, std::uint64_t value) {
        tag(field, 0);
        varint(value);
        return *this;
    }
    Message& real(int field, double value) {
        tag(field, 1);
        fixed(std::bit_cast<std::uint64_t>(value));
        return *this;
    }
    Message& real(int field, float value) {
        tag(field, 5);
        fixed(std::bit_cast<std::uint32_t>(value));
        return *this;
    }
    Message& bytes(int field, std::string_view value) {
        tag(field, 2);
        varint(value.size());
        text_ += value;
        return *this;
    }
    Message& message(int field, const Message& value) { return bytes(field, value.text_); }
    const std::string& text() const { return text_; }

  private:
    void tag(int field, int wire_type) {
        varint(static_cast<std::uint64_t>(field) << 3U | static_cast<std::uint64_t>(wire_type));
    }
    void varint(std::uint64_t value) {
        for (; value >= 0x80; value >>= 7U) text_ += static_cast<char>(value | 0x80);
        text_ += static_cast<char>(value);
    }
    template <class U>
    void fixed(U value) {
        for (std::size_t i = 0; i < sizeof value; ++i)
            text_ += static_cast<char>(value >> (8 * i) & 0xFF);
    }
    std::string text_;
};

Message event(std::int64_t step) {
    const auto now = wall_clock_now().time_since_epoch();
    return Message()
        .real(1, std::chrono::duration<double>(now).count())
        .number(2, static_cast<std::uint64_t>(step));
}

// Returns a Summary.Value for the text plugin: a tensor with one string.
Message text_value(const std::string& tag, const std::string& text) {
    constexpr int kString = 7;
    const Message plugin = Message().message(1, Message().bytes(1, "text"));
    const Message tensor = Message().number(1, kString).message(2, Message()).bytes(8, text);
    return Message().bytes(1, tag).message(8, tensor).message(9, plugin);
}

// Returns the text with invalid UTF-8 replaced in the same way as in metrics.jsonl.
std::string utf8(const std::string& text) {
    const auto replace = Json::error_handler_t::replace;
    return Json::parse(Json(text).dump(-1, ' ', false, replace)).get<std::string>();
}

std::string event_of(const OrderedJson& row) {
    const auto step = row.find("step");
    if (step == row.end() || !step->is_number()) return "";
    Message summary;
    for (const auto& [name, value] : row.items()) {
        if (name == "step" || !value.is_number()) continue;
        summary.message(1, Message().bytes(1, name).real(2, value.get<float>()));
    }
    if (row.contains("prompt") && row.contains("text")) {
        const auto prompt = row["prompt"].get<std::string>();
        const std::string tag = utf8(prompt);
        summary.message(1, text_value("sample/" + tag, tag + utf8(row["text"].get<std::string>())));
    }
    if (summary.text().empty()) return "";
    return tfrecord(event(step->get<std::int64_t>()).message(5, summary).text());
}

// Returns the first events of a file: the version and, for a resumed run, SessionLog{START} at the
// run's first step.
std::string head_of(std::int64_t step) {
    std::string head = tfrecord(event(0).bytes(3, "brain.Event:2").text());
    if (step == 0) return head;
    return head + tfrecord(event(step + 1).message(7, Message().number(1, 1)).text());
}

bool has_files(const fs::path& folder) {
    std::error_code ignored;
    return fs::directory_iterator(folder, ignored) != fs::directory_iterator();
}

// Returns the name of a new file. Names sort by time, because TensorBoard reads the files in name
// order.
fs::path new_name(const fs::path& folder) {
    char host[256] = {};
    ::gethostname(host, sizeof host - 1);
    const auto now =
        std::chrono::duration_cast<std::chrono::milliseconds>(wall_clock_now().time_since_epoch());
    return folder / ("events.out.tfevents." + std::to_string(now.count()) + "." + host);
}

std::string first_content(const fs::path& folder, std::int64_t step,
                          const std::vector<OrderedJson>& kept) {
    if (has_files(folder)) return head_of(step);
    std::string content = head_of(0);
    for (const OrderedJson& row : kept) content += event_of(row);
    return content;
}

constexpr std::array<std::uint32_t, 256> crc_table() {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
        std::uint32_t crc = i;
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ (crc & 1U ? 0x82F63B78U : 0U);
        table[i] = crc;
    }
    return table;
}

std::string masked(std::string_view bytes) {
    const std::uint32_t crc = crc32c(bytes);
    const std::uint32_t mask = std::rotr(crc, 15) + 0xA282EAD8U;
    return {reinterpret_cast<const char*>(&mask), sizeof mask};
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
    static constexpr auto kTable = crc_table();
    std::uint32_t crc = ~0U;
    for (const char byte : bytes)
        crc = kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFFU] ^ (crc >> 8U);
    return ~crc;
}

std::string tfrecord(std::string_view payload) {
    const std::uint64_t size = payload.size();
    const std::string length(reinterpret_cast<const char*>(&size), sizeof size);
    return length + masked(length) + std::string(payload) + masked(payload);
}

EventFile::EventFile(const fs::path& folder, std::int64_t step,
                     const std::vector<OrderedJson>& kept)
    : file_(new_name(folder), first_content(folder, step, kept)) {}

void EventFile::append(const OrderedJson& row) {
    const std::string record = event_of(row);
    if (!record.empty()) file_.append(record);
}

}  // namespace roll::train
