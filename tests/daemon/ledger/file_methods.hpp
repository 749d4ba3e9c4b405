// Makes SQLite's table of file operations from the static functions of a type. Used for the test
// disks.
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
