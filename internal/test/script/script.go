// Package script runs scenarios that are text files with recorded output. Package stores has those of whole stores.
package script

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/internal/base/expiry"
)

// Script is a scenario that runs.
type Script struct {
	*testing.T
	// Do runs a statement, and shows its error, or else its end, unless that is empty.
	Do    func(c *Statement, end string)
	mu    sync.Mutex
	shown strings.Builder
	ended []string // what "start" has run, since the last statement
}

// Show adds a line to what the statements of a block have shown.
func (s *Script) Show(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&s.shown, format+"\n", args...)
}

// Statement is a line of a script. Verbs take their parameters out of the arguments; the rest are keys and values.
type Statement struct {
	Verb  string
	Args  []datadriven.CmdArg
	Aside bool // "start" runs it
}

// Rest returns the statement that the arguments are.
func (c *Statement) Rest() *Statement { return &Statement{Verb: c.Name(), Args: c.Args[1:]} }

// Take returns a parameter, or otherwise if the statement has it not.
func (c *Statement) Take(name, otherwise string) string {
	i := slices.IndexFunc(c.Args, func(a datadriven.CmdArg) bool { return a.Key == name && len(a.Vals) == 1 })
	if i < 0 {
		return otherwise
	}
	defer func() { c.Args = slices.Delete(c.Args, i, i+1) }()
	return c.Args[i].Vals[0]
}

// Number is Take of a number.
func (c *Statement) Number(name string, otherwise int) (n int) {
	Sure(fmt.Sscan(c.Take(name, strconv.Itoa(otherwise)), &n))
	return n
}

// Time is Take of a duration.
func (c *Statement) Time(name string) time.Duration {
	return Sure(time.ParseDuration(c.Take(name, "0")))
}

// Name returns the first argument.
func (c *Statement) Name() string { return c.Args[0].Key }

// Sure returns the first result of a call that a correct script cannot make fail.
func Sure[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Word is a key or a value as scripts write it: with Go's escapes, "." is the empty one, and "ab*3+c" is "abababc".
func Word(text string) (all []byte) {
	for part := range strings.SplitSeq(text, "+") {
		part, times, repeated := strings.Cut(part, "*")
		n := 1
		if repeated {
			n = Sure(strconv.Atoi(times))
		}
		all = append(all, strings.Repeat(Sure(strconv.Unquote(`"`+part+`"`)), n)...)
	}
	if text == "." {
		return []byte{}
	}
	return all
}

// Text is the opposite of Word, but shows long values by their length and a checksum.
func Text(b []byte) string {
	switch {
	case len(b) == 0:
		return "."
	case len(b) > 40:
		return fmt.Sprintf("<%d bytes, %08x>", len(b), crc32.ChecksumIEEE(b))
	}
	quoted := strconv.Quote(string(b))
	return quoted[1 : len(quoted)-1]
}

// ofSource is where a program called something.
var ofSource = regexp.MustCompile(`at \S+\.go:\d+`)

// Failure is an error as scripts show it, with the names of what it is.
func Failure(err error) string {
	if err == nil {
		return "no error"
	}
	text := ofSource.ReplaceAllString(err.Error(), "at FILE")
	for _, known := range []struct {
		name string
		err  error
	}{
		{"ErrNotFound", base.ErrNotFound}, {"ErrClosed", base.ErrClosed}, {"ErrReadOnly", base.ErrReadOnly}, {"ErrCorruption", base.ErrCorruption},
		{"ErrConflict", base.ErrConflict}, {"ErrTooLarge", base.ErrTooLarge}, {"ErrNoEnvelope", expiry.ErrNoEnvelope}, {"ErrNoSpace", base.ErrNoSpace},
		{"ErrLocked", base.ErrLocked}, {"ErrNewer", base.ErrNewer}, {"fs.ErrExist", fs.ErrExist}, {"fs.ErrNotExist", fs.ErrNotExist},
	} {
		if errors.Is(err, known.err) {
			text += " [" + known.name + "]"
		}
	}
	return text
}

// Verbs are the statements of scripts, "*" those with other verbs. An error that one returns is shown.
type Verbs[S any] map[string]func(s S, c *Statement) error

// Run runs the scenarios of a directory. A script has statements, one a line, in blocks. A block ends with "----" and
// what its statements have shown; -rewrite writes that anew, and a review reads the difference. The statement "start"
// goes on with the next one when the rest of its line waits.
//
// The clock stands still, and after each statement all work in the background is done or waits. begin returns the state
// of a script, and what ends it.
func Run[S any](t *testing.T, dir string, verbs Verbs[S], begin func(s *Script) (state S, end func())) {
	// The encoder and the decoder of the process have channels, which must not belong to the bubble that needs them
	// first.
	block, kind, err := codec.Append(nil, make([]byte, 1<<10), codec.Zstd)
	require.NoError(t, err)
	_, err = codec.Decode(kind, block, nil, "a block")
	require.NoError(t, err)
	datadriven.Walk(t, dir, func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			s := &Script{T: t}
			state, end := begin(s)
			defer end()
			s.Do = func(c *Statement, end string) {
				act, known := verbs[c.Verb]
				if !known {
					act, known = verbs["*"]
				}
				require.True(s, known, "there is no verb %q", c.Verb)
				line := c.Verb + " " + end
				if err := act(state, c); err != nil {
					line = c.Verb + ": " + Failure(err)
				} else if end == "" {
					return
				}
				if !c.Aside {
					s.Show("%s", line)
					return
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				s.ended = append(s.ended, line)
			}
			run := func(c *Statement) {
				if c.Verb == "start" {
					rest := c.Rest()
					rest.Aside = true
					go s.Do(rest, "has ended")
				} else {
					s.Do(c, "")
				}
				synctest.Wait()
				s.mu.Lock()
				ended := s.ended
				s.ended = nil
				s.mu.Unlock()
				for _, line := range slices.Sorted(slices.Values(ended)) { // they may have ended at the same time
					s.Show("%s", line)
				}
			}
			datadriven.RunTest(t, path, func(t *testing.T, block *datadriven.TestData) string {
				s.shown.Reset()
				run(&Statement{Verb: block.Cmd, Args: block.CmdArgs})
				for line := range strings.Lines(block.Input) {
					verb, args, err := datadriven.ParseLine(line)
					require.NoError(t, err, block.Pos)
					run(&Statement{Verb: verb, Args: args})
				}
				return s.shown.String()
			})
		})
	})
}
