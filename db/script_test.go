package db_test

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// TestScripts runs the scenarios in testdata/scripts. A script has statements, one a line, in blocks. A block ends with
// "----" and what its statements have shown; -rewrite writes that anew, and a review reads the difference. scriptVerbs
// are the statements.
//
// A key or value has Go's escapes, "." is the empty one, and "ab*3+c" is "abababc". Each "open" begins with an empty
// file system. The clock stands still but for "sleep", and after each statement all work in the background is done or
// waits. Compactions do not begin by themselves unless the options say so.
//
//make:portable
func TestScripts(t *testing.T) {
	// The encoder and the decoder of the process have channels, which must not belong to the bubble that needs them
	// first.
	block, kind, err := codec.Append(nil, make([]byte, 1<<10), codec.Zstd)
	require.NoError(t, err)
	_, err = codec.Decode(kind, block, nil, "a block")
	require.NoError(t, err)
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			s := &script{T: t}
			defer s.end()
			datadriven.RunTest(t, path, func(t *testing.T, block *datadriven.TestData) string {
				s.shown.Reset()
				s.run(&statement{block.Cmd, block.CmdArgs})
				for line := range strings.Lines(block.Input) {
					verb, args, err := datadriven.ParseLine(line)
					require.NoError(t, err, block.Pos)
					s.run(&statement{verb, args})
				}
				return s.shown.String()
			})
		})
	})
}

// script is the state of one script.
type script struct {
	*testing.T
	mem     *vfs.Mem
	reads   atomic.Int64 // of tables
	full    atomic.Bool  // the disk has no room for new tables
	held    atomic.Pointer[held]
	release chan struct{} // of what was held last
	ahead   atomic.Int64  // how far the clock for expiry is ahead of time.Now
	o       db.Options    // of the last opening
	d       *db.DB
	named   map[string]any // snapshots, iterators, transactions and so on
	keys    []string       // that the script has used since "open": lookups of all of them must agree with iterators

	mu     sync.Mutex
	shown  strings.Builder
	events []string // the compactions
}

// held is an operation on a file that waits until release is closed.
type held struct {
	kind, glob string
	release    chan struct{}
}

// statement is a line of a script. Verbs take their parameters out of the arguments; the rest are keys and values.
type statement struct {
	verb string
	args []datadriven.CmdArg
}

// take returns a parameter, or otherwise if the statement has it not.
func (c *statement) take(name, otherwise string) string {
	i := slices.IndexFunc(c.args, func(a datadriven.CmdArg) bool { return a.Key == name && len(a.Vals) == 1 })
	if i < 0 {
		return otherwise
	}
	defer func() { c.args = slices.Delete(c.args, i, i+1) }()
	return c.args[i].Vals[0]
}

// number is take of a number.
func (c *statement) number(name string, otherwise int) (n int) {
	sure(fmt.Sscan(c.take(name, strconv.Itoa(otherwise)), &n))
	return n
}

// time is take of a duration.
func (c *statement) time(name string) time.Duration {
	return sure(time.ParseDuration(c.take(name, "0")))
}

// bounds takes those of a range.
func (c *statement) bounds() (from, to []byte) {
	bound := func(name string) []byte {
		if text := c.take(name, ""); text != "" {
			return word(text)
		}
		return nil
	}
	return bound("from"), bound("to")
}

// name returns the first argument.
func (c *statement) name() string { return c.args[0].Key }

// sure returns the first result of a call that a correct script cannot make fail.
func sure[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// called returns what has a name, or "txn/namespace".
func (s *script) called(name string) any {
	name, namespace, within := strings.Cut(name, "/")
	require.Contains(s, s.named, name)
	if within {
		return s.named[namespace].(*db.Namespace).In(s.named[name].(db.Reader))
	}
	return s.named[name]
}

// in takes the reader or writer of a statement: what has a name, or the store.
func (s *script) in(c *statement) any {
	if name := c.take("in", ""); name != "" {
		return s.called(name)
	}
	return s.d
}

// run runs a statement. "start" goes on with the next one when this one waits.
func (s *script) run(c *statement) {
	if c.verb == "start" {
		go s.do(&statement{c.name(), c.args[1:]}, "has ended")
	} else {
		s.do(c, "")
	}
	synctest.Wait()
}

func (s *script) do(c *statement, end string) {
	act, known := scriptVerbs[c.verb]
	require.True(s, known, "there is no verb %q", c.verb)
	if err := act(s, c); err != nil {
		s.show("%s: %s", c.verb, failure(err))
	} else if end != "" {
		s.show("%s %s", c.verb, end)
	}
}

func (s *script) show(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&s.shown, format+"\n", args...)
}

// failure is an error as scripts show it, with the names of what it is.
func failure(err error) string {
	if err == nil {
		return "no error"
	}
	text := err.Error()
	for _, known := range []struct {
		name string
		err  error
	}{
		{"ErrNotFound", db.ErrNotFound}, {"ErrClosed", db.ErrClosed}, {"ErrReadOnly", db.ErrReadOnly}, {"ErrCorruption", db.ErrCorruption},
		{"ErrConflict", db.ErrConflict}, {"ErrTooLarge", db.ErrTooLarge}, {"ErrNoEnvelope", db.ErrNoEnvelope}, {"ErrNoSpace", db.ErrNoSpace},
		{"fs.ErrExist", fs.ErrExist}, {"fs.ErrNotExist", fs.ErrNotExist},
	} {
		if errors.Is(err, known.err) {
			text += " [" + known.name + "]"
		}
	}
	return text
}

// begin makes an empty file system and the options of scripts.
func (s *script) begin() {
	s.end()
	s.ahead.Store(0)
	s.keys, s.events, s.named = nil, nil, map[string]any{}
	s.o = *testOptions(nil)
	s.use(vfs.NewMem())
	s.o.Compaction = db.CompactionOptions{L0Trigger: 1000, L0Slowdown: 1000, L0Stop: 2000, MaxConcurrent: 1}
	s.o.Expiry.Clock = func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }
	s.o.EventListener = &db.EventListener{CompactionEnd: func(i db.CompactionInfo) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.events = append(s.events, fmt.Sprintf("level %d, %d tables to %d: %s", i.InputLevel, i.InputTables, i.OutputTables, i.Reason))
	}}
}

// use makes mem the file system.
func (s *script) use(mem *vfs.Mem) {
	s.mem = mem
	s.o.FS = checkOrder(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpRead && filepath.Ext(op.Name) == ".ldb" {
			s.reads.Add(1)
		}
		h := s.held.Load()
		if h != nil && op.Kind.String() == h.kind && sure(filepath.Match(h.glob, filepath.Base(op.Name))) && s.held.CompareAndSwap(h, nil) {
			<-h.release
		}
		if op.Kind == wrap.OpCreate && filepath.Ext(op.Name) == ".ldb" && s.full.Load() {
			return &wrap.Fault{Err: syscall.ENOSPC}
		}
		return nil
	}))
}

// end closes all that is open.
func (s *script) end() {
	for _, open := range s.named {
		if c, ok := open.(io.Closer); ok {
			_ = c.Close() // it may be closed
		}
	}
	_ = s.d.Close()
}

// word is a key or a value as scripts write it.
func word(text string) (all []byte) {
	for part := range strings.SplitSeq(text, "+") {
		part, times, repeated := strings.Cut(part, "*")
		n := 1
		if repeated {
			n = sure(strconv.Atoi(times))
		}
		all = append(all, strings.Repeat(sure(strconv.Unquote(`"`+part+`"`)), n)...)
	}
	if text == "." {
		return []byte{}
	}
	return all
}

// text is the opposite of word, but shows long values by their length and a checksum.
func text(b []byte) string {
	switch {
	case len(b) == 0:
		return "."
	case len(b) > 40:
		return fmt.Sprintf("<%d bytes, %08x>", len(b), crc32.ChecksumIEEE(b))
	}
	quoted := strconv.Quote(string(b))
	return quoted[1 : len(quoted)-1]
}

// entry is a key with its value, or a deletion.
type entry struct {
	key, value       []byte
	ttl              time.Duration
	expires, deleted bool
}

// entries returns those of a statement: "key=value", "key=(value, 1s)", "-key" or "key".
func (s *script) entries(c *statement) (all []entry) {
	for _, a := range c.args {
		key, deleted := strings.CutPrefix(a.Key, "-")
		e := entry{key: word(key), deleted: deleted, expires: len(a.Vals) > 1}
		if len(a.Vals) > 0 {
			e.value = word(a.Vals[0])
		}
		if e.expires {
			e.ttl = sure(time.ParseDuration(a.Vals[1]))
		}
		all = append(all, e)
		s.keys = append(s.keys, string(e.key))
	}
	return all
}

// write puts or deletes entries in a store, a namespace, a transaction, a load or a batch, and ends with the first
// error.
func write(to any, all ...entry) error {
	for _, e := range all {
		method, args := "Put", []any{e.key, e.value}
		switch {
		case e.deleted:
			method, args = "Delete", []any{e.key}
		case e.expires:
			method, args = "PutTTL", append(args, e.ttl)
		}
		call := reflect.ValueOf(to).MethodByName(method)
		if call.Type().NumIn() > len(args) {
			args = append(args, db.NoSync)
		}
		var in []reflect.Value
		for _, arg := range args {
			in = append(in, reflect.ValueOf(arg))
		}
		if out := call.Call(in); len(out) > 0 && !out[0].IsNil() {
			return out[0].Interface().(error)
		}
	}
	return nil
}

var reversedOrder = &db.Comparer{Name: "test.reversed", Compare: func(a, b []byte) int { return bytes.Compare(b, a) }}

// optionWords are values of options that are no numbers, times or texts.
var optionWords = map[string]any{
	"true": true, "false": false, "automatic": db.CompactionOptions{MaxLevelBase: 32 << 10, MaxConcurrent: 1},
	"uncompressed": db.NoCompression, "snappy": db.SnappyCompression, "zstd": db.ZstdCompression,
	"all": db.SalvageAll, "always": always, "bloom12": filter.NewBloomPolicy(12), "no-filter": filter.None,
	"fuse7": filter.NewFusePolicy(7), "fuse8": filter.NewFusePolicy(8), "fuse16": filter.NewFusePolicy(16),
	"several":  filter.Several(filter.NewCacheLineBloomPolicy(12), filter.NewBloomPolicy(12)),
	"prefix2":  rangefilter.NewPrefix(rangefilter.FixedPrefix(2), 9),
	"grafite":  rangefilter.NewGrafite(rangefilter.FixedPrefix(2), rangefilter.BigEndian(4), 16),
	"reversed": reversedOrder,
	"folding": &db.Comparer{
		Name: "folding", InexactEqual: true,
		Compare: func(a, b []byte) int { return bytes.Compare(bytes.ToLower(a), bytes.ToLower(b)) },
	},
	"drops-and-raises": testFilter,
	"too-long":         func(_, _ []byte) ([]byte, bool) { return make([]byte, db.MaxValueSize+1), true },
}

// setOptions sets fields: "Tables.Size=8192", "Expiry.Prefixes=(a, b)". "default" is the zero value, as "()" is.
func setOptions(o *db.Options, c *statement) {
	for _, a := range c.args {
		to := field(reflect.ValueOf(o), a.Key)
		to.SetZero()
		if to.Kind() != reflect.Slice {
			setOption(to, a.Vals[0])
			continue
		}
		for _, text := range a.Vals {
			if text != "" {
				element := reflect.New(to.Type().Elem()).Elem()
				setOption(element, text)
				to.Set(reflect.Append(to, element))
			}
		}
	}
}

func setOption(to reflect.Value, text string) {
	switch value, known := optionWords[text]; {
	case text == "another" && to.Type() == reflect.TypeFor[vfs.FS]():
		to.Set(reflect.ValueOf(vfs.NewMem()))
	case text == "another":
		to.Set(reflect.New(to.Type().Elem()))
	case known:
		to.Set(reflect.ValueOf(value))
	case text == "default":
	case to.Kind() == reflect.String:
		to.SetString(string(word(text)))
	case to.Kind() == reflect.Slice:
		to.SetBytes(word(text))
	case to.Type() == reflect.TypeFor[time.Duration]():
		to.SetInt(int64(sure(time.ParseDuration(text))))
	default:
		sure(fmt.Sscan(text, to.Addr().Interface()))
	}
}

// field returns the part of a struct at a path such as Levels.0.Tables.
func field(v reflect.Value, path string) reflect.Value {
	for name := range strings.SplitSeq(path, ".") {
		v = reflect.Indirect(v)
		if i, err := strconv.Atoi(name); err == nil {
			v = v.Index(i)
		} else {
			v = v.FieldByName(name)
		}
	}
	return v
}
