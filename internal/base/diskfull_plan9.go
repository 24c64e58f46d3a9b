package base

import "strings"

// isDiskFull checks the text, because errors of Plan 9 have no numbers. Its fossil reports "disk
// is full", its cwfs "file system full".
func isDiskFull(err error) bool {
	text := err.Error()
	return strings.Contains(text, "disk is full") || strings.Contains(text, "file system full")
}

// isReadOnlyFS is always false: errors of Plan 9 have no numbers, and each file server has its own text for this one.
func isReadOnlyFS(error) bool { return false }
