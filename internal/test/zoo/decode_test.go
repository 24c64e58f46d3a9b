//go:build linux

package zoo

import (
	"cmp"
	"embed"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:embed bugs
var files embed.FS

// bugs are all bugs, in the order of their numbers.
var bugs = load()

func load() []bug {
	list, err := files.ReadDir("bugs")
	if err != nil {
		panic(err)
	}
	var all []bug
	for _, f := range list {
		name := path.Join("bugs", f.Name())
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err)
		}
		bugs, err := decode(name, string(text))
		if err != nil {
			panic(err)
		}
		all = append(all, bugs...)
	}
	slices.SortStableFunc(all, func(a, b bug) int { return cmp.Compare(a.rank(), b.rank()) })
	return all
}

func (b *bug) rank() int {
	n, _ := strconv.Atoi(strings.TrimPrefix(b.number(), "B"))
	return n
}

// decode reads the bugs of one file, in the format that the package's comment shows.
func decode(name, text string) ([]bug, error) {
	var bugs []bug
	for i, line := range strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		var err error
		switch word, rest, _ := strings.Cut(line, ": "); {
		case line == "" || line[0] == '#':
		case strings.HasPrefix(word, "bug "):
			bugs = append(bugs, bug{id: strings.TrimPrefix(word, "bug "), what: rest})
		case len(bugs) == 0:
			err = fmt.Errorf("it stands before the first bug")
		default:
			err = bugs[len(bugs)-1].add(line, word, rest)
		}
		if err != nil {
			return nil, fmt.Errorf("%s, line %d, %q: %w", name, i+1, line, err)
		}
	}
	return bugs, nil
}

// add adds a line to the bug: the words before and after a colon, or a line of a patch.
func (b *bug) add(line, word, rest string) error {
	switch {
	case strings.Contains(" -+", line[:1]):
		if len(b.plant) == 0 {
			return fmt.Errorf("a line of a patch, and no file before it")
		}
		b.plant[len(b.plant)-1].add(line[0], line[1:])
	case word == "seen":
		b.seen = rest
	case word == "file":
		b.plant = append(b.plant, patch{file: rest, old: "\n", new: "\n"}) // whole lines
	case word == "test":
		parts := strings.SplitN(rest, " ", 3)
		if len(parts) < 2 {
			return fmt.Errorf("want a package's folder, a test, and its flags if it needs some")
		}
		c := catch{pkg: parts[0], args: strings.Join(parts[2:], "")}
		c.test, c.part, _ = strings.Cut(parts[1], "/")
		b.caught = append(b.caught, c)
	case word == "says":
		if len(b.caught) == 0 {
			return fmt.Errorf("what a test says, and no test before it")
		}
		b.caught[len(b.caught)-1].sees = rest
	default:
		return fmt.Errorf("want bug, seen, test, says, file, or a line that begins with +, - or a space")
	}
	return nil
}

func (p *patch) add(mark byte, line string) {
	if mark != '+' {
		p.old += line + "\n"
	}
	if mark != '-' {
		p.new += line + "\n"
	}
}

func TestErrorsInFilesOfBugsNameTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"seen: here":                      `f, line 1, "seen: here": it stands before the first bug`,
		"bug B1: it\n\n+	x":               `f, line 3, "+\tx": a line of a patch, and no file before it`,
		"bug B1: it\n# why\ntest: db":     `f, line 3, "test: db": want a package's folder`,
		"bug B1: it\nsays: no":            `f, line 2, "says: no": what a test says, and no test before it`,
		"bug B1: it\nfile: x.go\nreplace": `f, line 3, "replace": want bug, seen, test`,
	} {
		_, err := decode("f", text)
		require.ErrorContains(t, err, want)
	}
}
