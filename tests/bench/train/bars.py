"""Figures beside the bars that they must reach."""


class Bars:
    """Prints figures with their bars."""
    missed = 0

    def at_most(self, what, value, bar):
        self.show(what, value, 'at most', bar, value <= bar)

    def at_least(self, what, value, bar):
        self.show(what, value, 'at least', bar, value >= bar)

    def show(self, what, value, how, bar, holds):
        self.missed += not holds
        print(f'{"ok    " if holds else "MISSED"} {what}: {value:.3f}; {how} {bar}', flush=True)
