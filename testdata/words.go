// Package testdata contains the word lists of the project, so that a command finds them wherever
// it runs. The go command ignores directories of this name in patterns such as ./... . README.md
// has the sources and licences of the lists.
package testdata

import "embed"

// The files of Words, gzip-compressed: one word a line, sorted by their bytes. No word is in both.
const (
	WordsStored = "words-stored.txt.gz" // 170,421 words
	WordsAbsent = "words-absent.txt.gz" // 100,000 rarer ones
)

// Words holds WordsStored and WordsAbsent.
//
//go:embed words-stored.txt.gz words-absent.txt.gz
var Words embed.FS
