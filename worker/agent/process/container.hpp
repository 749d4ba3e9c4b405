// The command lines of container runtimes: Podman, Apptainer and Enroot.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"
#include "worker/agent/process/clock.hpp"
#include "worker/agent/process/guard_plan.hpp"
#include "worker/agent/process/launch_site.hpp"

namespace roll::agent {

// The key `container` of a job file, or srun's options of pyxis
struct Container {
    std::string image;
    std::string runtime = "auto";
    std::vector<std::string> binds{};  // "SRC", "SRC:DST" or "SRC:DST:ro"
    std::string workdir{};             // empty: the job's working directory
    // Name of srun's --container-name. The tasks of all steps with this name use the same files on
    // a node. Empty: each task has files of its own. With a name, `image` may be empty.
    std::string name{};
    friend bool operator==(const Container&, const Container&) = default;
};
Result<Container> read_container(const Json& json);
Json json_of(const Container& container);

// Returns the path of each container runtime in the directories of `path`, a value of PATH.
std::map<std::string, std::string> find_runtimes(const std::string& path);

// Returns the name of the runtime that runs the container; empty if this node has no suitable one.
std::string runtime_of(const Container& container, const LaunchSite& site);

// A process that runs in a container and belongs to an attempt
struct ContainerPlace {
    std::string name;       // name of the container, unique on the node
    std::string output;     // output directory of the job
    std::string directory;  // working directory of the job
    std::string files;      // directory of the attempt's files; empty: none
    bool gpus = false;      // true if the attempt has GPUs
    std::string shared{};   // for a named container: name of the runtime's container with the files
    std::string lock{};     // for a named container: file that is locked while it is made
};

// Makes the program that was last added to the plan run in the container. The container gets the
// variables `environment`, MASTER_ADDR and MASTER_PORT. For Podman, adds to the plan a program that
// removes the container after the attempt. Fails with InvalidArgument if this node lacks the
// runtime.
Result<void> enclose(const Container& container, const ContainerPlace& place,
                     const std::map<std::string, std::string>& environment, const LaunchSite& site,
                     GuardPlan& plan);

// Returns the variables in `environment` ("NAME=value") that a container gets if it is started with
// this environment. The container does not get variables that configure the container runtime or
// describe the host.
std::map<std::string, std::string> inherited(const std::vector<std::string>& environment);

// Beginning of a file name in the folder of an attempt's steps. The number of a node follows. The
// file contains lines of removal_line(), which remove the containers of srun's tasks on that node.
constexpr const char* kListedContainers = "/containers-";

// Returns the variables of `environment` that configure the container runtime. A runtime that is
// started with them finds the containers that were started with this environment.
std::vector<std::string> runtime_variables(const std::vector<std::string>& environment);

// Returns a shell command on one line that runs `remove` with the runtime_variables() of
// `environment`. `remove`: program and arguments that remove a container.
std::string removal_line(const std::vector<std::string>& remove,
                         const std::vector<std::string>& environment);

// Returns a program that runs each different line of `file` once. It does nothing if the file does
// not exist.
Program removal_of_listed(const std::string& file, const LaunchSite& site);

// Runs the programs at once, each with its environment and no other variables, for at most `most`.
// The programs are those that guards could not run after their attempts (GuardPlan::after).
void run_left_over(const std::vector<Program>& programs, Millis most = Millis(20'000));

}  // namespace roll::agent
