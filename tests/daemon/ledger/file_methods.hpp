// SQLite's table of what a file can do, made of a type's static functions: for the disks that tests
// put under it.
#pragma once

#include "daemon/ledger/sqlite.hpp"

namespace roll::ledger {

template <class File>
const sqlite3_io_methods* file_methods() {
    static const sqlite3_io_methods kMethods = {2,
                                                File::close,
                                                File::read,
                                                File::write,
                                                File::truncate,
                                                File::sync,
                                                File::file_size,
                                                File::lock,
                                                File::unlock,
                                                File::check_reserved,
                                                File::control,
                                                File::sector_size,
                                                File::characteristics,
                                                File::shm_map,
                                                File::shm_lock,
                                                File::shm_barrier,
                                                File::shm_unmap,
                                                nullptr,
                                                nullptr};
    return &kMethods;
}

}  // namespace roll::ledger
