// `rollctl top`: draws the lines of cli/top/view with ncurses, and reads keys.
#include <algorithm>
#include <clocale>
#include <csignal>
#include <cstdlib>

#include <fmt/format.h>
#include <langinfo.h>
#include <ncurses.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cli/client/daemon.hpp"
#include "cli/commands/commands.hpp"
#include "cli/top/keys.hpp"
#include "cli/top/reader.hpp"
#include "cli/top/terminal.hpp"
#include "cli/top/view.hpp"
#include "common/io/descriptor.hpp"

namespace roll::cli {
namespace {

constexpr int kRedrawMs = 1000;  // interval at which the clock and the durations are drawn again
constexpr std::size_t kPlainHeight = 60;
constexpr std::size_t kPlainWidth = 160;

// The signal that ends the program; 0: none. The signal handler sets this variable.
volatile std::sig_atomic_t ending_signal = 0;  // NOLINT
void note_signal(int signal) { ending_signal = signal; }

// Controls the terminal through ncurses. The destructor restores the terminal.
class Screen {
  public:
    static Result<std::unique_ptr<Screen>> open(bool color) {
        const char* const name = std::getenv("TERM");
        const std::string terminal = name == nullptr ? "" : name;
        if (!top::can_move_cursor()) {
            return fail(ErrorCode::InvalidArgument,
                        fmt::format("the terminal type {} cannot show a full-screen view",
                                    terminal.empty() ? "(TERM is not set)" : terminal),
                        "rollctl jobs, or set TERM to your terminal's type, such as xterm");
        }
        SCREEN* const screen = newterm(nullptr, stdout, stdin);
        if (screen == nullptr)
            return fail(ErrorCode::Failed,
                        "cannot switch to full-screen mode in the terminal " + terminal);
        return std::unique_ptr<Screen>(new Screen(screen, color));
    }
    ~Screen() {
        endwin();
        delscreen(screen_);
    }
    Screen(const Screen&) = delete;
    Screen& operator=(const Screen&) = delete;

    void draw(const std::vector<top::Line>& lines) const {
        erase();
        for (std::size_t row = 0; row < lines.size(); ++row) {
            move(static_cast<int>(row), 0);
            for (const top::Span& span : lines[row]) {
                attrset(attribute_of(span.style));
                addstr(span.text.c_str());
            }
        }
        refresh();
    }
    // Returns the next key that was pressed; nullopt if there is none. Sets `resized` if the size
    // of the terminal has changed.
    std::optional<top::Key> key(bool& resized) const;

  private:
    Screen(SCREEN* screen, bool color) : screen_(screen) {
        cbreak();
        noecho();
        curs_set(0);
        keypad(stdscr, TRUE);
        nodelay(stdscr, TRUE);
        // wait 25 ms for the rest of an escape sequence, then treat Esc as a key
        set_escdelay(25);
        color_ = color && has_colors() && start_color() == OK;
        if (!color_) return;
        use_default_colors();
        for (const auto& [pair, foreground] :
             {std::pair{1, COLOR_CYAN}, {2, COLOR_YELLOW}, {3, COLOR_GREEN}, {4, COLOR_RED}})
            init_pair(static_cast<short>(pair), static_cast<short>(foreground), -1);
    }

    attr_t attribute_of(top::Style style) const {
        const auto colored = [&](short pair) { return color_ ? COLOR_PAIR(pair) : A_NORMAL; };
        switch (style) {
            case top::Style::Plain: break;
            case top::Style::Bar:
            case top::Style::Selected: return A_REVERSE;
            case top::Style::Title: return A_BOLD;
            case top::Style::Dim: return A_DIM;
            case top::Style::Running: return colored(1);
            case top::Style::Queued: return colored(2);
            case top::Style::Done: return colored(3);
            case top::Style::Failed: return colored(4);
        }
        return A_NORMAL;
    }

    SCREEN* screen_;
    bool color_ = false;
};

std::optional<top::Key> Screen::key(bool& resized) const {
    using top::Key;
    static const std::map<int, Key::Kind> kKinds = {
        {KEY_UP, Key::Up},       {KEY_DOWN, Key::Down},    {KEY_LEFT, Key::Left},
        {KEY_RIGHT, Key::Right}, {KEY_PPAGE, Key::PageUp}, {KEY_NPAGE, Key::PageDown},
        {KEY_HOME, Key::Home},   {KEY_END, Key::End},      {KEY_ENTER, Key::Enter},
        {'\n', Key::Enter},      {'\r', Key::Enter},       {27, Key::Escape},
        {'\t', Key::Tab},        {KEY_BTAB, Key::BackTab}, {KEY_BACKSPACE, Key::Backspace},
        {127, Key::Backspace},   {'\b', Key::Backspace}};
    for (int code = getch(); code != ERR; code = getch()) {
        if (code == KEY_RESIZE) resized = true;
        if (const auto kind = kKinds.find(code); kind != kKinds.end()) return Key{kind->second};
        if (code >= ' ' && code < 127) return Key{Key::Character, static_cast<char>(code)};
    }
    return std::nullopt;
}

top::Canvas canvas_now(bool utf8) {
    return {static_cast<std::size_t>(getmaxx(stdscr)), static_cast<std::size_t>(getmaxy(stdscr)),
            utf8, wall_clock_now(), true};
}

// Replaces the characters that an ASCII terminal cannot show.
void make_ascii(std::vector<top::Line>& lines) {
    for (top::Line& line : lines) {
        for (top::Span& span : line) {
            std::string text;
            for (const char c : span.text) {
                const auto byte = static_cast<unsigned char>(c);
                if (byte < 0x80) text += c;
                if (byte >= 0xC0) text += '?';
            }
            span.text = text;
        }
    }
}

// Shows the view until the user quits or a signal arrives. `woken` is an eventfd that becomes
// readable when the reader has new data. Returns the signal, or 0.
int show(const Screen& screen, top::Reader& reader, int woken) {
    const bool utf8 = std::string_view(nl_langinfo(CODESET)) == "UTF-8";
    top::Ui ui;
    for (bool quit = false; !quit && ending_signal == 0;) {
        const auto data = reader.data();
        bool resized = false;
        for (auto key = screen.key(resized); key && !quit; key = screen.key(resized)) {
            const top::Effect effect = top::press(ui, *key, *data, canvas_now(utf8));
            quit = effect.quit;
            if (!effect.cancel.empty()) reader.cancel(effect.cancel);
        }
        reader.want(top::wanted_of(ui));
        if (resized) clear();
        auto lines = top::draw(*data, ui, canvas_now(utf8));
        if (!utf8) make_ascii(lines);
        screen.draw(lines);
        std::array<pollfd, 2> polled{pollfd{STDIN_FILENO, POLLIN, 0}, pollfd{woken, POLLIN, 0}};
        if (!quit && ending_signal == 0) ::poll(polled.data(), polled.size(), kRedrawMs);
        quit |= (polled[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
        eventfd_t count = 0;
        if ((polled[1].revents & POLLIN) != 0) ::eventfd_read(woken, &count);
    }
    return ending_signal;
}

Result<int> run_screen(const Context& context, top::Reading reading) {
    std::setlocale(LC_ALL, "");
    ROLL_TRY(auto screen, Screen::open(context.color));
    struct sigaction note {};
    note.sa_handler = note_signal;
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &note, nullptr);
    const io::Descriptor woken(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    top::Reader reader(std::move(reading), [fd = woken.get()] { ::eventfd_write(fd, 1); });
    const int signal = show(*screen, reader, woken.get());
    screen.reset();
    // Do not wait for the end of the reader's thread, because the thread may wait for rolld for
    // seconds.
    if (signal == 0) std::_Exit(0);
    std::signal(signal, SIG_DFL);
    ::raise(signal);
    return 128 + signal;
}

}  // namespace

Result<int> run_top(const Context& context) {
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    top::Reading reading(std::move(daemon));
    ROLL_TRY_VOID(reading.look(
        {.page = context.json ? top::Page::Nodes : top::Page::Jobs, .expand = context.json}, 0));
    if (context.terminal && !context.json) return run_screen(context, std::move(reading));
    const top::Data& data = reading.data();
    if (context.json) {
        print_json({{"schema", "roll.top/1"}, {"jobs", data.jobs}, {"nodes", data.nodes}});
        return 0;
    }
    // stdout is not a terminal: print the view once.
    const top::Canvas canvas{kPlainWidth, kPlainHeight, true, wall_clock_now(), false};
    auto lines = top::draw(data, {}, canvas);
    lines.pop_back();  // remove the line that lists the keys
    // Replace consecutive empty lines by one. On a screen, they only fill the space between the
    // list and the events.
    const auto repeats = std::unique(lines.begin(), lines.end(), [](const auto& a, const auto& b) {
        return top::text_of(a).empty() && top::text_of(b).empty();
    });
    lines.erase(repeats, lines.end());
    std::string text;
    for (const top::Line& line : lines) text += top::text_of(line) + "\n";
    print(text);
    return 0;
}

}  // namespace roll::cli
