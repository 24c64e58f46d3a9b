package main

import (
	"os"

	"golang.org/x/term"
)

// isTerminal reports whether a person reads w directly.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// terminalWidth returns how many columns the terminal has that w is; 0 if it is none.
func terminalWidth(w any) int {
	if s, ok := w.(interface{ Width() int }); ok { // of tests
		return s.Width()
	}
	if !isTerminal(w) {
		return 0
	}
	width, _, err := term.GetSize(int(w.(*os.File).Fd()))
	if err != nil || width < minWidth {
		return defaultWidth
	}
	return width
}

// The width of a terminal that does not say one, and the least that tables are made for, in columns.
const (
	defaultWidth = 80
	minWidth     = 20
)

// noColor follows the convention of no-color.org, and terminals that know no colours.
func noColor() bool { return os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" }
