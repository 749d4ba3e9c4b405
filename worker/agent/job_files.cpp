#include "worker/agent/job_files.hpp"

#include <algorithm>
#include <fstream>
#include <system_error>

#include "common/files.hpp"
#include "common/io/sha256.hpp"
#include "worker/agent/process/command.hpp"

namespace roll::agent {
namespace {

namespace fs = std::filesystem;

constexpr Millis kAskAgain{5000};  // time without an answer after which a request is repeated

// Writes a file from its pieces in the directory `pieces`.
Result<void> write_file(const fs::path& path, const spec::StagedFile& file,
                        const fs::path& pieces) {
    ROLL_TRY_VOID(make_directories(path.parent_path()));
    std::ofstream out(path, std::ios::binary);
    std::uint64_t bytes = 0;
    for (const std::string& piece : file.pieces) {
        ROLL_TRY(const std::string content, read_file(pieces / piece));
        out << content;
        bytes += content.size();
    }
    out.close();
    if (!out) return fail(ErrorCode::Refused, "cannot write " + path.string());
    if (bytes != file.bytes)
        return fail(ErrorCode::Corrupt, "the pieces of the file " + file.name + " have " +
                                            std::to_string(bytes) + " bytes; the job file says " +
                                            std::to_string(file.bytes));
    if (!file.executable) return {};
    std::error_code error;
    fs::permissions(path, fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec,
                    fs::perm_options::add, error);
    if (!error) return {};
    return fail(ErrorCode::Failed, "cannot make " + path.string() + " executable");
}

}  // namespace

JobFiles::JobFiles(fs::path directory, std::uint64_t kept_bytes_max)
    : directory_(std::move(directory)),
      kept_bytes_max_(kept_bytes_max) {
    std::error_code error;
    fs::remove_all(directory_, error);
}

void JobFiles::hold_back(protocol::Answer& answer) {
    std::erase_if(answer.start, [&](protocol::StartOrder& order) {
        if (!order.files || !order.refused.empty()) return false;
        fetch(order);
        const auto settled = settled_.find(order.attempt);
        if (settled != settled_.end()) order.refused = settled->second;
        return settled == settled_.end();
    });
}

void JobFiles::fetch(const protocol::StartOrder& order) {
    if (waiting_.contains(order.attempt) || settled_.contains(order.attempt)) return;
    const auto document = parse_json(order.document);
    if (!document) return settle(order.attempt, document.error().message);
    try {
        waiting_[order.attempt] = spec::staged_files(*document);
    } catch (const Json::exception& error) {
        return settle(
            order.attempt,
            std::string("rolld sent invalid data about the job's files: ") + error.what());
    }
    lay_out_all();
}

void JobFiles::settle(const AttemptKey& key, std::string trouble) {
    settled_[key] = std::move(trouble);
    news_ = true;
}

// Returns the pieces that waiting attempts need and that have not arrived yet.
std::set<std::string> JobFiles::lacking() const {
    std::set<std::string> lacking;
    for (const auto& [key, files] : waiting_)
        for (const spec::StagedFile& file : files)
            for (const std::string& piece : file.pieces)
                if (!kept_.contains(piece)) lacking.insert(piece);
    return lacking;
}

std::optional<protocol::PieceRequest> JobFiles::request(Instant now) {
    if (waiting_.empty()) return std::nullopt;
    if (!asked_.empty() && now - asked_at_ < kAskAgain) return std::nullopt;
    const std::set<std::string> pieces = lacking();
    if (pieces.empty()) return std::nullopt;
    asked_ = *pieces.begin();
    asked_at_ = now;
    return protocol::PieceRequest{asked_};
}

void JobFiles::take(const protocol::Piece& piece) {
    if (piece.piece == asked_) asked_.clear();
    if (!lacking().contains(piece.piece)) return;
    if (!piece.trouble.empty())
        give_up(piece.piece, "the job's files cannot be fetched: " + piece.trouble);
    else if (io::sha256(piece.bytes) == piece.piece)
        keep(piece);
    lay_out_all();
}

void JobFiles::keep(const protocol::Piece& piece) {
    const fs::path path = directory_ / "pieces" / piece.piece;
    auto written = make_directories(path.parent_path());
    if (written) written = write_file_atomically(path, piece.bytes);
    if (!written) return give_up(piece.piece, written.error().message);
    kept_[piece.piece] = {piece.bytes.size(), ++uses_};
    kept_bytes_ += piece.bytes.size();
}

// Removes the least recently used pieces.
void JobFiles::make_room() {
    while (kept_bytes_ > kept_bytes_max_) {
        const auto oldest =
            std::ranges::min_element(kept_, {}, [](const auto& item) { return item.second.used; });
        std::error_code error;
        fs::remove(directory_ / "pieces" / oldest->first, error);
        kept_bytes_ -= oldest->second.bytes;
        kept_.erase(oldest);
    }
}

void JobFiles::give_up(const std::string& piece, const std::string& trouble) {
    std::erase_if(waiting_, [&](const auto& item) {
        const bool needs = std::ranges::any_of(item.second, [&](const spec::StagedFile& file) {
            return std::ranges::find(file.pieces, piece) != file.pieces.end();
        });
        if (needs) settle(item.first, trouble);
        return needs;
    });
}

void JobFiles::forget(const std::vector<spec::StagedFile>& files) {
    for (const spec::StagedFile& file : files)
        for (const std::string& piece : file.pieces)
            if (const auto kept = kept_.find(piece); kept != kept_.end()) {
                kept_bytes_ -= kept->second.bytes;
                kept_.erase(kept);
            }
}

// Writes the files of each waiting attempt whose pieces have all arrived.
void JobFiles::lay_out_all() {
    std::erase_if(waiting_, [&](const auto& item) {
        const auto& [key, files] = item;
        const bool complete = std::ranges::all_of(files, [&](const spec::StagedFile& file) {
            return std::ranges::all_of(
                file.pieces, [&](const std::string& piece) { return kept_.contains(piece); });
        });
        if (!complete) return false;
        const auto done = lay_out(key, files);
        if (!done)
            // a piece on disk may be damaged; the next attempt fetches the pieces again
            forget(files);
        settle(key, done ? "" : done.error().message);
        return true;
    });
    if (waiting_.empty()) make_room();
}

Result<void> JobFiles::lay_out(const AttemptKey& key, const std::vector<spec::StagedFile>& files) {
    const fs::path place = files_directory(directory_, key);
    ROLL_TRY_VOID(make_directories(place));
    for (const spec::StagedFile& file : files) {
        if (const std::string why = spec::wrong_file_name(file.name); !why.empty())
            return fail(ErrorCode::Corrupt, "the name of one of the job's files " + why);
        ROLL_TRY_VOID(write_file(place / file.name, file, directory_ / "pieces"));
        for (const std::string& piece : file.pieces) kept_[piece].used = ++uses_;
    }
    return {};
}

void JobFiles::keep_only(const std::function<bool(const AttemptKey&)>& is_wanted) {
    std::vector<AttemptKey> unwanted;
    for (const auto& [key, files] : waiting_)
        if (!is_wanted(key)) unwanted.push_back(key);
    for (const auto& [key, trouble] : settled_)
        if (!is_wanted(key)) unwanted.push_back(key);
    for (const AttemptKey& key : unwanted) remove(key);
}

void JobFiles::remove(const AttemptKey& key) {
    if (directory_.empty()) return;
    waiting_.erase(key);
    settled_.erase(key);
    std::error_code error;
    fs::remove_all(files_directory(directory_, key), error);
}

}  // namespace roll::agent
