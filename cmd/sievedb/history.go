package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/sievedb/sievedb/vfs/outfile"
)

// history keeps the lines of shells in a file, the newest last.
type history struct {
	path  string
	lines []string
}

// maxHistory is how many lines are kept, and maxHistoryBytes is larger than every file of them.
const (
	maxHistory      = 1000
	maxHistoryBytes = 256 << 20
)

// openHistory reads the history of the user; nil if there is no place for one.
func openHistory() *history {
	dir := os.Getenv("XDG_STATE_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil
		}
		dir = filepath.Join(home, ".local", "state")
	}
	dir = filepath.Join(dir, "sievedb")
	if err := os.MkdirAll(dir, 0o700); err != nil { // the lines have keys and values
		return nil
	}
	h := &history{path: filepath.Join(dir, "history")}
	b, err := outfile.ReadOwn(h.path, maxHistoryBytes)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil // such as the history of another user, whose HOME root has
	}
	h.lines = strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if len(b) == 0 {
		h.lines = nil
	}
	if n := len(h.lines); n > maxHistory {
		h.lines = h.lines[n-maxHistory:]
		_ = outfile.Replace(h.path, []byte(strings.Join(h.lines, "\n")+"\n"), 0o600) // a longer file does no harm
	}
	return h
}

// add keeps a line.
func (h *history) add(line string) {
	if strings.TrimSpace(line) == "" || strings.Contains(line, "\n") || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	f, err := outfile.Append(h.path, 0o600)
	if err != nil {
		return // the history of this shell still works
	}
	_, _ = f.WriteString(line + "\n")
	_ = f.Close()
}
