// Formats the help of a program with lines of at most 80 columns.
#pragma once

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace roll {

// Breaks each line of the text at spaces, so that no line is longer than `columns`. A word that is
// longer stays whole. Keeps the spaces at the beginning of a line.
inline std::string wrapped(std::string_view text, std::size_t columns) {
    std::string result;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        while (line.size() > columns) {
            std::size_t space = line.rfind(' ', columns);
            if (space == std::string_view::npos || line.find_first_not_of(' ') > space)
                space = line.find(' ', columns);
            if (space == std::string_view::npos) break;
            result.append(line.substr(0, space)).append("\n");
            line.remove_prefix(space + 1);
        }
        result.append(line);
        if (end < text.size()) result += '\n';
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return result;
}

class HelpFormat : public CLI::Formatter {
  public:
    std::string make_option_desc(const CLI::Option* option) const override {
        return wrapped(CLI::Formatter::make_option_desc(option), kColumns - column_width_);
    }
    std::string make_subcommand(const CLI::App* sub) const override {
        std::stringstream out;
        CLI::detail::format_help(out, sub->get_display_name(true),
                                 wrapped(sub->get_description(), kColumns - column_width_),
                                 column_width_);
        return out.str();
    }
    std::string make_description(const CLI::App* app) const override {
        return wrapped(CLI::Formatter::make_description(app), kColumns);
    }
    std::string make_usage(const CLI::App* app, std::string name) const override {
        // `name` may be a path; keep only the file name
        const std::size_t slash = name.rfind('/');
        if (slash != std::string::npos) name.erase(0, slash + 1);
        return wrapped(CLI::Formatter::make_usage(app, std::move(name)), kColumns);
    }
    std::string make_footer(const CLI::App* app) const override {
        return wrapped(CLI::Formatter::make_footer(app), kColumns);
    }

  private:
    static constexpr std::size_t kColumns = 80;
};

}  // namespace roll
