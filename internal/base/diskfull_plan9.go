package base

import "strings"

// isDiskFull looks at the text: errors of Plan 9 have no numbers. Its fossil says "disk is
// full", its cwfs "file system full".
func isDiskFull(err error) bool {
	text := err.Error()
	return strings.Contains(text, "disk is full") || strings.Contains(text, "file system full")
}
