package main

import (
	_ "embed" // goterms.txt
	"strings"
)

// goTermLines are what errors and reports of the packages call things in Go, a tab, and the words of the tool for them.
//
//go:embed goterms.txt
var goTermLines string

var goTerms = newGoTerms()

func newGoTerms() *strings.Replacer {
	var pairs []string
	for line := range strings.Lines(goTermLines) {
		term, words, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		pairs = append(pairs, term, words)
	}
	return strings.NewReplacer(pairs...)
}

// inVerbs returns a text of a package in the words of the tool.
func inVerbs(text string) string { return goTerms.Replace(text) }
