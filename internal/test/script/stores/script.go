// Package stores runs scripts on stores.
package stores

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/script"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// Run runs the scenarios of a directory, as script.Run does. Each "open" begins with an empty file system, and nothing but
// "sleep" takes time. Compactions do not begin by themselves unless the options say so.
func Run(t *testing.T, dir string) {
	script.Run(t, dir, verbs, func(s *script.Script) (*state, func()) {
		st := &state{Script: s}
		return st, st.end
	})
}

// state is that of one script.
type state struct {
	*script.Script
	mem     *vfs.Mem
	reads   atomic.Int64 // of tables
	full    atomic.Bool  // the disk has no room for new tables
	failing atomic.Pointer[failing]
	held    atomic.Pointer[held]
	release chan struct{} // of what was held last
	ahead   atomic.Int64  // how far the clock for expiry is ahead of time.Now
	dir     string        // of the store
	o       db.Options    // of the last opening
	d       *db.DB
	ended   *atomic.Int32  // how far d has ended; see endingFS
	named   map[string]any // snapshots, iterators, transactions and so on
	keys    []string       // that the script has used since "open": lookups of all of them must agree with iterators

	mu     sync.Mutex
	events []string // the compactions
}

// held is an operation on a file that waits until release is closed.
type held struct {
	kind, glob string
	release    chan struct{}
}

// failing are operations on files, by their paths, that end with an error until "heal".
type failing struct {
	kind, glob string
	err        error
}

var faults = map[string]error{"ENOSPC": syscall.ENOSPC, "EIO": syscall.EIO, "EXDEV": syscall.EXDEV, "missing": fs.ErrNotExist}

// statement is a line of a script.
type statement = script.Statement

// bounds takes those of a range.
func bounds(c *statement) (from, to []byte) {
	bound := func(name string) []byte {
		if text := c.Take(name, ""); text != "" {
			return script.Word(text)
		}
		return nil
	}
	return bound("from"), bound("to")
}

// called returns what has a name, or "txn/namespace".
func (s *state) called(name string) any {
	name, namespace, within := strings.Cut(name, "/")
	require.Contains(s, s.named, name)
	if within {
		return s.named[namespace].(*db.Namespace).In(s.named[name].(db.Reader))
	}
	return s.named[name]
}

// in takes the reader or writer of a statement: what has a name, or the store.
func (s *state) in(c *statement) any {
	if name := c.Take("in", ""); name != "" {
		return s.called(name)
	}
	return s.d
}

// begin makes an empty file system and the options of scripts.
func (s *state) begin() {
	s.end()
	s.reads.Store(0)
	s.ahead.Store(0)
	s.failing.Store(nil)
	s.dir, s.keys, s.events, s.named = "db", nil, nil, map[string]any{}
	s.o = *storetest.Options(nil)
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
func (s *state) use(mem *vfs.Mem) {
	s.mem = mem
	s.o.FS = fixture.CheckOrder(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpRead && filepath.Ext(op.Name) == ".ldb" {
			s.reads.Add(1)
		}
		if f := s.failing.Load(); f != nil && (f.kind == "any" || f.kind == op.Kind.String()) && script.Sure(filepath.Match(f.glob, op.Name)) {
			return &wrap.Fault{Err: f.err}
		}
		h := s.held.Load()
		if h != nil && op.Kind.String() == h.kind && script.Sure(filepath.Match(h.glob, filepath.Base(op.Name))) && s.held.CompareAndSwap(h, nil) {
			<-h.release
		}
		if op.Kind == wrap.OpCreate && filepath.Ext(op.Name) == ".ldb" && s.full.Load() {
			return &wrap.Fault{Err: syscall.ENOSPC}
		}
		return nil
	}))
}

// end closes all that is open.
func (s *state) end() {
	for _, open := range s.named {
		if c, ok := open.(io.Closer); ok {
			_ = c.Close() // it may be closed
		}
	}
	_ = s.close()
}

// close closes the store.
func (s *state) close() error {
	start := time.Now()
	err := s.d.Close()
	require.Zero(s, time.Since(start), "Close waits")
	if s.d != nil {
		s.ended.Store(storeClosed)
	}
	return err
}

const (
	storeReadOnly = 1
	storeClosed   = 2
)

// endingFS is the file system of one opening. Once the store has ended, it changes nothing, and opens no file.
func (s *state) endingFS() vfs.FS {
	ended := new(atomic.Int32)
	s.ended = ended
	return wrap.NewFaulty(s.o.FS, func(op wrap.Op) *wrap.Fault {
		if now := ended.Load(); now != 0 && fixture.ChangesFiles(op.Kind) || now == storeClosed && op.Kind == wrap.OpOpen {
			s.Errorf("%v of %s after the end", op.Kind, op.Name)
		}
		return nil
	})
}

// entry is a key with its value, or a deletion.
type entry struct {
	key, value       []byte
	ttl              time.Duration
	expires, deleted bool
}

// entries returns those of a statement: "key=value", "key=(value, 1s)", "-key" or "key".
func (s *state) entries(c *statement) (all []entry) {
	for _, a := range c.Args {
		key, deleted := strings.CutPrefix(a.Key, "-")
		e := entry{key: script.Word(key), deleted: deleted, expires: len(a.Vals) > 1}
		if len(a.Vals) > 0 {
			e.value = script.Word(a.Vals[0])
		}
		if e.expires {
			e.ttl = script.Sure(time.ParseDuration(a.Vals[1]))
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

// optionWords are values of options that are no numbers, times or texts.
var optionWords = map[string]any{
	"true": true, "false": false, "automatic": db.CompactionOptions{MaxLevelBase: 32 << 10, MaxConcurrent: 1},
	"nosync": db.NoSync, "uncompressed": db.NoCompression, "snappy": db.SnappyCompression, "zstd": db.ZstdCompression,
	"all": db.SalvageAll, "always": fixture.Always, "bloom12": filter.NewBloomPolicy(12), "no-filter": filter.None,
	"fuse7": filter.NewFusePolicy(7), "fuse8": filter.NewFusePolicy(8), "fuse16": filter.NewFusePolicy(16),
	"several":  filter.Several(filter.NewCacheLineBloomPolicy(12), filter.NewBloomPolicy(12)),
	"prefix2":  rangefilter.NewPrefix(rangefilter.FixedPrefix(2), 9),
	"grafite":  rangefilter.NewGrafite(rangefilter.FixedPrefix(2), rangefilter.BigEndian(4), 16),
	"reversed": fixture.ReversedOrder,
	"marked":   &db.Comparer{Name: base.LogDirPrefix + "mine", Compare: bytes.Compare},
	"folding": &db.Comparer{
		Name: "folding", InexactEqual: true,
		Compare: func(a, b []byte) int { return bytes.Compare(bytes.ToLower(a), bytes.ToLower(b)) },
	},
	"drops-and-raises": fixture.DropOrRaise,
	"too-long":         func(_, _ []byte) ([]byte, bool) { return make([]byte, db.MaxValueSize+1), true },
}

// setOptions sets fields: "Tables.Size=8192", "Expiry.Prefixes=(a, b)". "default" is the zero value, as "()" is.
func setOptions(o *db.Options, c *statement) {
	for _, a := range c.Args {
		setOption(Field(reflect.ValueOf(o), a.Key), a)
	}
}

// setOption sets a field or a parameter to what an argument says.
func setOption(to reflect.Value, a datadriven.CmdArg) {
	to.SetZero()
	if to.Kind() != reflect.Slice || to.Type() == reflect.TypeFor[[]byte]() {
		setWord(to, append(a.Vals, a.Key)[0])
		return
	}
	for _, text := range a.Vals {
		if text != "" {
			element := reflect.New(to.Type().Elem()).Elem()
			setWord(element, text)
			to.Set(reflect.Append(to, element))
		}
	}
}

func setWord(to reflect.Value, text string) {
	switch value, known := optionWords[text]; {
	case text == "another" && to.Type() == reflect.TypeFor[vfs.FS]():
		to.Set(reflect.ValueOf(vfs.NewMem()))
	case text == "another":
		to.Set(reflect.New(to.Type().Elem()))
	case known:
		to.Set(reflect.ValueOf(value))
	case text == "default", text == "nil":
	case to.Kind() == reflect.String:
		to.SetString(string(script.Word(text)))
	case to.Kind() == reflect.Slice:
		to.SetBytes(script.Word(text))
	case to.Type() == reflect.TypeFor[time.Duration]():
		to.SetInt(int64(script.Sure(time.ParseDuration(text))))
	default:
		script.Sure(fmt.Sscan(text, to.Addr().Interface()))
	}
}

// Field returns the part of a struct at a path such as Levels.0.Tables.
func Field(v reflect.Value, path string) reflect.Value {
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
