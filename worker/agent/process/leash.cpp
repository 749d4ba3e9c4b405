#include "worker/agent/process/leash.hpp"

#include <cerrno>
#include <system_error>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

namespace roll::agent {
namespace {

constexpr std::size_t kPageBytes = 4096;

tl::unexpected<Error> no_page(const char* what) {
    return fail(ErrorCode::Failed,
                std::string("cannot ") + what +
                    " the memory page that roll-worker shares with the process that supervises a "
                    "job: " +
                    std::generic_category().message(errno));
}

}  // namespace

Result<Leash> Leash::make() {
    io::Descriptor shared(::memfd_create("roll-leash", MFD_CLOEXEC));
    if (!shared || ::ftruncate(shared.get(), kPageBytes) != 0) return no_page("create");
    return open(std::move(shared));
}

// Maps the shared page. A new page is all zeros, which means that both deadlines have passed.
Result<Leash> Leash::open(io::Descriptor shared) {
    void* const memory =
        ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, shared.get(), 0);
    if (memory == MAP_FAILED) return no_page("map");
    return Leash(std::move(shared), static_cast<Page*>(memory));
}

Leash::Leash(Leash&& other) noexcept
    : shared_(std::move(other.shared_)),
      page_(std::exchange(other.page_, nullptr)) {}

Leash& Leash::operator=(Leash&& other) noexcept {
    std::swap(shared_, other.shared_);
    std::swap(page_, other.page_);
    return *this;
}

Leash::~Leash() {
    if (page_ != nullptr) ::munmap(page_, kPageBytes);
}

void Leash::set(Instant lease_ends, Instant killed_at) {
    page_->lease_ends = lease_ends.count();
    page_->killed_at = killed_at.count();
}

Instant Leash::lease_ends() const { return Instant(page_->lease_ends.load()); }
Instant Leash::killed_at() const { return Instant(page_->killed_at.load()); }

}  // namespace roll::agent
