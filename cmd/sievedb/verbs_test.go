package main

import (
	"strings"
	"testing"
)

// verbsOf returns all verbs.
func verbsOf(t *testing.T) []*verb {
	t.Helper()
	return new(app).verbs()
}

func (v *verb) name() string { return strings.Fields(v.use)[0] }

// onDir returns the words that call the verb for a directory, with keys or paths as further words.
func (v *verb) onDir(dir string) []string {
	args := []string{v.name()}
	switch v.name() {
	case "destroy":
		args = append(args, "--yes")
	case "diff":
		return append(args, dir, dir)
	case "put":
		return append(args, dir, "key", "value")
	case "delete-range":
		args = append(args, "--all", "--yes")
	}
	return append(append(args, dir), []string{"key", "value"}[:v.min-1]...)
}
