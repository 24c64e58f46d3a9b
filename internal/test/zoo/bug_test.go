//go:build linux

package zoo

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// bug is one bug and who catches it.
type bug struct {
	id string // a number, and a letter if the bug has several variants
	// what the planted code does wrong, and where that was seen.
	what, seen string
	plant      []patch
	caught     []catch // each of these tests must fail
}

// patch replaces whole lines of one file, with the line breaks around them. The old text is in the file exactly once.
type patch struct {
	file     string // from the module's root, with slashes
	old, new string
}

// catch is a test that must fail while the bug is planted, and pass without it.
type catch struct {
	pkg, test string // the package's folder from the module's root
	part      string // of the test: a pattern of subtests; all where it is empty
	args      string // flags
	sees      string // what the test's output must hold
}

func (b *bug) number() string { return strings.TrimRightFunc(b.id, unicode.IsLower) }

func (c catch) command() string {
	return strings.TrimSpace(fmt.Sprintf("go test -run '%s' ./%s %s", c.pattern(), c.pkg, c.args))
}

// pattern is the test's for -run.
func (c catch) pattern() string {
	if c.part == "" {
		return "^" + c.test + "$"
	}
	return "^" + c.test + "$/" + c.part
}

// span is the bytes of a file that a patch replaces.
type span struct{ from, to int }

// find returns where the old text is.
func (p patch) find(text string) (span, error) {
	switch n := strings.Count(text, p.old); n {
	case 1:
		from := strings.Index(text, p.old)
		return span{from, from + len(p.old)}, nil
	default:
		return span{}, fmt.Errorf("%s has the text that the bug replaces %d times, want it once; "+
			"the code has changed: bring the bug up to date. The text is\n%s", p.file, n, strings.Trim(p.old, "\n"))
	}
}

// apply returns the files of the patches, patched. The patches may not overlap.
func apply(patches []patch, read func(file string) (string, error)) (map[string]string, error) {
	byFile := map[string][]patch{}
	for _, p := range patches {
		byFile[p.file] = append(byFile[p.file], p)
	}
	patched := map[string]string{}
	for file, patches := range byFile {
		text, err := read(file)
		if err != nil {
			return nil, err
		}
		if patched[file], err = applyToFile(patches, text); err != nil {
			return nil, err
		}
	}
	return patched, nil
}

func applyToFile(patches []patch, text string) (string, error) {
	type edit struct {
		span
		new string
	}
	var edits []edit
	for _, p := range patches {
		at, err := p.find(text)
		if err != nil {
			return "", err
		}
		edits = append(edits, edit{at, p.new})
	}
	slices.SortFunc(edits, func(a, b edit) int { return a.from - b.from })
	var out strings.Builder
	end := 0
	for _, e := range edits {
		if e.from < end {
			return "", errOverlap
		}
		out.WriteString(text[end:e.from])
		out.WriteString(e.new)
		end = e.to
	}
	out.WriteString(text[end:])
	return out.String(), nil
}

var errOverlap = fmt.Errorf("two patches replace the same text")
